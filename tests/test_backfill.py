"""A rule run over older spans decides as it would have live, each span and trace once, and can be stopped."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from collector.live.matching.matcher import Matcher
from rules.settling import Settling
from storage.errors import Conflict, WriteConflict
from storage.judging.backfills import Backfill
from storage.judging.span_window import WindowLimits
from storage.store import Store
from tests.matching import InForce, active, every_backfill, matching, remember, write
from tests.storing import START_NS, WAIT_S, a_batch, a_store, an_export, commit, rows, trace_id

pytestmark = pytest.mark.costly("collector/conventions", "collector/live", "collector/reading", "rules", "storage")

MINUTE_NS = 60 * 10**9
EACH = "SELECT revision, outcome, count(*), count(DISTINCT seq) FROM decision GROUP BY ALL ORDER BY ALL"
NAMED = [{"field": "name", "op": "=", "value": "span 3"}]


def fill(store: Store, *, batches: int, spans: int = 10) -> None:
    """Store traces a minute apart, a commit each."""
    for number in range(batches):
        start_ns = START_NS + number * MINUTE_NS
        commit(store, a_batch(an_export(spans, trace=number, first=spans * number, start_ns=start_ns)))


def finished(live: Matcher, backfill_id: str) -> Backfill:
    """Return the backfill, once it has ended."""
    deadline_s = time.monotonic() + WAIT_S
    while time.monotonic() < deadline_s:
        (backfill,) = [one for one in every_backfill(live) if one.backfill_id == backfill_id]
        if backfill.state != "running":
            return backfill
        time.sleep(0.02)
    pytest.fail("the backfill does not end")


@pytest.mark.parametrize("target", ["SPAN", "TRACE"])
def test_a_backfill_is_about_the_tenant_of_its_rule(tmp_path: Path, target: str) -> None:
    """A backfill of a tenant's rule covers its spans alone, and that of a shared rule those of all tenants."""
    of_nobody, of_a = active(1, target=target), active(2, target=target, tenant="a")
    in_force = InForce()
    with a_store(tmp_path) as store, matching(store, in_force) as live:
        commit(store, *(a_batch(an_export(), tenant=tenant) for tenant in ("a", "b", "")))
        assert live.wait_matched(WAIT_S)
        in_force.rules = (of_nobody, of_a)
        backfills = [finished(live, live.backfills.start(rule, START_NS, START_NS + 1)) for rule in in_force.rules]
        assert [(each.looked_at, each.matched) for each in backfills] == [(3, 3), (1, 1)]
        jobs = "SELECT revision, tenant FROM job ORDER BY ALL"
        assert rows(store, jobs) == [(1, ""), (1, "a"), (1, "b"), (2, "a")]


def test_counts_of_a_rule_are_of_all_its_revisions_together(tmp_path: Path) -> None:
    """After an edit and a backfill, what both revisions decided counts twice in the rule's numbers."""
    rules = [replace(active(number, target="SPAN"), rule_id="edited") for number in (1, 2)]
    in_force = InForce()
    in_force.rules = (rules[0],)
    with a_store(tmp_path) as store, matching(store, in_force) as live:
        remember(store, *rules)
        fill(store, batches=3)
        assert live.wait_matched(WAIT_S)
        in_force.rules = (rules[1],)
        assert finished(live, live.backfills.start(rules[1], START_NS, START_NS + 3 * MINUTE_NS)).matched == 30
        assert store.status.rule_activity(START_NS)["edited"]["matched"] == 60


@pytest.mark.parametrize("target", ["SPAN", "TRACE"])
def test_a_backfill_decides_about_what_started_in_its_time(tmp_path: Path, target: str) -> None:
    """Of ten minutes it takes the four that it is asked for, and a second one finds nothing left to decide."""
    rule = active(1, target=target, conditions=NAMED)
    in_force = InForce()
    with a_store(tmp_path) as store, matching(store, in_force) as live:
        fill(store, batches=10)
        assert live.wait_matched(WAIT_S)
        in_force.rules = (rule,)
        window = START_NS, START_NS + 4 * MINUTE_NS
        backfill = finished(live, live.backfills.start(rule, *window))
        looked_at = 40 if target == "SPAN" else 4
        assert (backfill.state, backfill.looked_at, backfill.matched) == ("done", looked_at, 1)
        assert rows(store, EACH) == [(1, 0, looked_at - 1, looked_at - 1), (1, 2, 1, 1)]
        assert rows(store, "SELECT trace_id, round, state, occasion FROM job") == [
            (trace_id(0), 0, "ready", "backfill")
        ]
        again = finished(live, live.backfills.start(rule, START_NS, START_NS + 6 * MINUTE_NS))
        assert (again.looked_at, again.matched) == (20 if target == "SPAN" else 2, 0)
        assert in_force.enqueued == 1


@pytest.mark.parametrize("target", ["SPAN", "TRACE"])
def test_a_backfill_of_chosen_traces_looks_at_these_alone(tmp_path: Path, target: str) -> None:
    """Of ten traces it decides about the two that are named, and then it has forgotten which, and not how many."""
    rule = active(1, target=target)
    in_force = InForce()
    with a_store(tmp_path) as store, matching(store, in_force) as live:
        fill(store, batches=10)
        assert live.wait_matched(WAIT_S)
        in_force.rules = (rule,)
        named = [trace_id(3), trace_id(7)]
        started = live.backfills.start(rule, START_NS, START_NS + 10 * MINUTE_NS, trace_ids=named)
        backfill = finished(live, started)
        assert (backfill.state, backfill.looked_at) == ("done", 20 if target == "SPAN" else 2)
        assert rows(store, "SELECT DISTINCT trace_id FROM job ORDER BY 1") == [(each,) for each in sorted(named)]
        assert backfill.trace_ids == ["", ""]
        every = finished(live, live.backfills.start(rule, START_NS, START_NS + 10 * MINUTE_NS))
        assert (every.looked_at, every.trace_ids) == (80 if target == "SPAN" else 8, None)


def test_a_backfill_and_what_comes_meanwhile_meet(tmp_path: Path) -> None:
    """A backfill skips spans that are matched live, and no span in between is left out."""
    rule = active(1)
    in_force = InForce()
    with a_store(tmp_path) as store, matching(store, in_force) as live:
        fill(store, batches=5)
        in_force.rules = (rule,)
        backfill_id = live.backfills.start(rule, 0, START_NS + 10**15)
        commit(store, a_batch(an_export(7, trace=50, first=1000)))
        finished(live, backfill_id)
        assert live.wait_matched(WAIT_S)
        assert rows(store, EACH) == [(1, 2, 57, 57)]
        assert rows(store, "SELECT count(DISTINCT job_id), max(job_id) FROM job") == [(57, 57)]


def test_an_open_trace_is_left_to_settling(tmp_path: Path) -> None:
    """A backfill does not decide about an open trace; once it has settled the active rule does."""
    rule = active(1, target="TRACE")
    in_force = InForce(rules=(rule,))
    with a_store(tmp_path) as store, matching(store, in_force) as live:
        fill(store, batches=2)
        assert live.wait_matched(WAIT_S)
        backfill = finished(live, live.backfills.start(rule, 0, START_NS + 10**15))
        assert (backfill.state, backfill.looked_at) == ("done", 0)
        in_force.clock.pass_s(11)
        assert live.wait_matched(WAIT_S)
        assert rows(store, EACH) == [(1, 2, 2, 2)]


def test_a_backfill_goes_on_after_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Step by step, interrupted after each, it decides about every span once."""
    monkeypatch.setattr("collector.live.matching.backfill._LIMITS", limits(rows=7))
    rule = active(1)
    in_force = InForce()
    with a_store(tmp_path) as store:
        fill(store, batches=5)
        with matching(store, in_force) as live:
            assert live.wait_matched(WAIT_S)
    steps, state = 0, "running"
    while state == "running":
        with a_store(tmp_path) as store:
            live = not_started(store, InForce(rules=(rule,)))
            if not steps:
                live.backfills.start(rule, 0, START_NS + 10**15)
            live.backfills.step()
            state = every_backfill(live)[0].state
            live._matcher_db.close()
        steps += 1
    with a_store(tmp_path) as store:
        assert steps == 8
        assert rows(store, EACH) == [(1, 2, 50, 50)]


def test_a_step_that_was_stored_all_the_same_is_not_stored_again(tmp_path: Path) -> None:
    """When a commit seems to fail and did not, the next attempt finds that out."""
    rule = active(1)
    with a_store(tmp_path) as store:
        fill(store, batches=3)
        live = not_started(store, InForce(rules=(rule,)))
        live._matching.pass_over(live._matching.state())
        live.backfills.start(rule, 0, START_NS + 10**15)
        (running,) = live._matching.backfills.running()
        step = live.backfills._next(live.backfills._begun(running), rule)
        live.backfills.step()
        with pytest.raises(WriteConflict):
            store.matching.backfills.store(step)
        assert rows(store, EACH) == [(1, 2, 30, 30)]
        live._matcher_db.close()


@pytest.mark.parametrize("target", ["SPAN", "TRACE"])
def test_a_backfill_decides_what_could_not_be_decided(tmp_path: Path, target: str) -> None:
    """Once a rule can be asked again, a backfill puts a decision in the place of each that is missing."""
    rule = active(1, target=target)
    in_force = InForce(rules=(rule,))
    with a_store(tmp_path) as store, matching(store, in_force) as live:
        fill(store, batches=3)
        assert live.wait_matched(WAIT_S)
        in_force.clock.pass_s(11)
        assert live.wait_matched(WAIT_S)
        write(store, "DELETE FROM job")
        write(store, "UPDATE decision SET outcome = 3 WHERE seq < 3 << 20")
        undecided = 20 if target == "SPAN" else 2
        backfill = finished(live, live.backfills.start(rule, 0, START_NS + 10**15))
        assert (backfill.looked_at, backfill.matched) == (undecided, undecided)
        everything = undecided * 3 // 2
        assert rows(store, EACH) == [(1, 2, everything, everything)]
        assert rows(store, "SELECT count(*) FROM job") == [(undecided,)]


def test_a_backfill_can_be_cancelled_and_ends_with_its_rule(tmp_path: Path) -> None:
    """A backfill that is cancelled, or whose rule is deleted, decides nothing more."""
    rule = active(1)
    with a_store(tmp_path) as store:
        fill(store, batches=3)
        live = not_started(store, InForce())
        first = live.backfills.start(rule, 0, START_NS + 10**15)
        assert live.backfills.cancel(first)
        assert not live.backfills.cancel(first)
        live.backfills.start(rule, 0, START_NS + 10**15)
        assert live.backfills.step() == 0
        assert live.backfills.step() is None
        assert [(one.state, one.error) for one in every_backfill(live)] == [
            ("cancelled", None),
            ("cancelled", "the rule was deleted"),
        ]
        assert rows(store, EACH) == []
        live._matcher_db.close()


def test_tenants_take_turns_at_backfills_and_so_do_their_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One backfill of a tenant waits for one step of another's many, and one rule for one step of each other rule."""
    monkeypatch.setattr("collector.live.matching.backfill._LIMITS", limits(rows=1))
    first, second, other = active(1, tenant="a"), active(2, tenant="a"), active(3, tenant="b")
    in_force = InForce()
    with a_store(tmp_path) as store:
        for tenant in ("a", "b"):
            commit(store, a_batch(an_export(9), tenant=tenant))
        with matching(store, in_force) as follower:
            assert follower.wait_matched(WAIT_S)
        live = not_started(store, in_force)
        in_force.rules = (first, second, other)
        started = [live.backfills.start(rule, 0, START_NS + 10**15) for rule in (first, first, second, other)]
        looked_at = []
        for _ in range(8):
            live.backfills.step()
            each = {one.backfill_id: one.looked_at for one in every_backfill(live)}
            looked_at.append([each[backfill_id] for backfill_id in started])
        assert looked_at[3] == [1, 0, 1, 2]
        assert looked_at[7] == [2, 0, 2, 4]
        live._matcher_db.close()


def test_backfills_under_way_are_bounded_for_a_rule_and_a_tenant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rule, and a tenant, with as many as it may have is refused one more until one ends; others are not."""
    monkeypatch.setattr("collector.live.matching.backfill._MOST_OF_RULE", 2)
    monkeypatch.setattr("collector.live.matching.backfill._MOST_OF_TENANT", 3)
    first, second, other = active(1, tenant="a"), active(2, tenant="a"), active(3, tenant="b")
    with a_store(tmp_path) as store:
        live = not_started(store, InForce(rules=(first, second, other)))
        started = [live.backfills.start(first, 0, START_NS) for _ in range(2)]
        with pytest.raises(Conflict, match=r"may have no more than 2 backfills under way \(fixed\): wait until"):
            live.backfills.start(first, 0, START_NS)
        live.backfills.start(second, 0, START_NS)
        with pytest.raises(Conflict, match="this tenant may have no more than 3 backfills"):
            live.backfills.start(second, 0, START_NS)
        live.backfills.start(other, 0, START_NS)
        assert live.backfills.cancel(started[0])
        live.backfills.start(second, 0, START_NS)
        live._matcher_db.close()


def limits(*, rows: int) -> WindowLimits:
    """Return as many spans at once."""
    return WindowLimits(rows=rows, nbytes=1 << 20)


def not_started(store: Store, in_force: InForce) -> Matcher:
    """Return a matcher whose steps a test makes."""
    return Matcher(
        store.matching, lambda: in_force.rules, Settling(), enqueued=in_force.note, revision=in_force.revision
    )


def test_a_step_reads_only_backfills_that_have_not_ended(tmp_path: Path) -> None:
    """However many backfills have ended, those that a step chooses from are the ones under way."""
    rule = active(1)
    with a_store(tmp_path) as store:
        fill(store, batches=1)
        live = not_started(store, InForce(rules=(rule,)))
        for _ in range(20):
            assert live.backfills.cancel(live.backfills.start(rule, 0, START_NS + 10**15))
        under_way = live.backfills.start(rule, 0, START_NS + 10**15)
        assert len(every_backfill(live)) == 21
        assert [each.backfill_id for each in live._matching.backfills.running()] == [under_way]
        assert [each.backfill_id for each, _ in live.backfills._running()] == [under_way]
