"""A rule that depends on another's results judges the targets these select, each once, and nothing else."""

import random
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.live.active import ActiveRule
from rules.errors import BadRule
from storage.judging.job_results import JobResult
from storage.judging.jobs import LedgerTurn
from storage.store import Store
from tests.matching import InForce, active, matching, remember, write
from tests.ruling import a_rule
from tests.storing import START_NS, WAIT_S, a_batch, a_store, an_export, commit, rows, trace_id
from tests.test_backfill import finished
from tests.test_settling import children, come

pytestmark = pytest.mark.costly("collector/conventions", "collector/live", "collector/reading", "rules", "storage")

NOW_US = START_NS // 1000
JOBS = "SELECT job_id, state FROM job WHERE revision = 2 ORDER BY job_id"
DECISIONS = "SELECT decision FROM decisions WHERE revision = 2 ORDER BY seq"
OF_FIRST_RULE = "SELECT job_id FROM job WHERE revision = 1 ORDER BY job_id"


def a_pair(
    target: str = "SPAN", of: str | None = None, after: Mapping[str, object] | None = None
) -> tuple[ActiveRule, ActiveRule]:
    """Build a check, and a rule that judges what failed the check or met another condition `after`."""
    condition = {"rule": "check", **(after or {"passed": False})}
    return active(1, name="check", target=of or target), active(2, name="judge", target=target, after=condition)


def store_results(store: Store, *results: JobResult) -> None:
    """Store these results of jobs."""
    store.jobs.take_turn(LedgerTurn(now_us=NOW_US, until_us=NOW_US, finished=results))


def scored(job_id: int, score: float = 0.0, *, passed: bool = False) -> JobResult:
    """Return a score, which by default does not pass."""
    return JobResult(job_id=job_id, name="check", outcome="scored", score=score, passed=passed, fingerprint="f")


def broken(job_id: int, kind: str = "timeout") -> JobResult:
    """Return the result of an evaluation that failed with an error."""
    return JobResult(job_id=job_id, name="check", outcome="failed", error_kind=kind, reason="too late")


def test_what_a_check_flags_is_judged_and_what_it_passes_is_not(tmp_path: Path) -> None:
    """A job is held until the check has a result for its span; a failed check may be retried, and then decides."""
    in_force = InForce(rules=a_pair())
    with a_store(tmp_path) as store, matching(store, in_force) as live:
        remember(store, *in_force.rules)
        commit(store, a_batch(an_export(3)))
        assert live.wait_matched(WAIT_S)
        assert rows(store, OF_FIRST_RULE) == [(1,), (3,), (5,)]
        assert rows(store, JOBS) == [(2, "held"), (4, "held"), (6, "held")]
        assert rows(store, DECISIONS) == [("held",), ("held",), ("held",)]
        store_results(store, scored(1), scored(3, 1.0, passed=True), broken(5))
        assert rows(store, JOBS) == [(2, "ready"), (6, "held")]
        assert rows(store, DECISIONS) == [("ready",), ("unflagged",), ("held",)]
        assert store.jobs.retry([5], now_us=NOW_US).jobs == 1
        assert rows(store, JOBS) == [(2, "ready"), (6, "held")]
        store_results(store, scored(7))
        assert rows(store, JOBS) == [(2, "ready"), (6, "ready")]


@pytest.mark.parametrize(
    "after, ready",
    [
        ({"passed": True}, [2]),
        ({"below": 0.5}, [4]),
        ({"atLeast": 0.5}, [2]),
        ({"passed": False, "atLeast": 0.4}, []),
        ({"below": 0.5, "atLeast": 0.2}, [4]),
        ({"outcome": "scored"}, [2, 4]),
        ({"outcome": "failed"}, [6]),
        ({"outcome": "skipped"}, []),
    ],
)
def test_a_result_must_say_all_that_is_asked(tmp_path: Path, after: dict[str, object], ready: list[int]) -> None:
    """A target is judged if the check's result meets all conditions of `after`."""
    in_force = InForce(rules=a_pair(after=after))
    with a_store(tmp_path) as store, matching(store, in_force) as live:
        remember(store, *in_force.rules)
        commit(store, a_batch(an_export(3)))
        assert live.wait_matched(WAIT_S)
        store_results(store, scored(1, 0.9, passed=True), scored(3, 0.3), broken(5))
        assert [job for job, state in rows(store, JOBS) if state == "ready"] == ready


def test_what_the_check_did_not_choose_is_not_waited_for(tmp_path: Path) -> None:
    """A span that the check does not select is decided at once, and a held job is dropped once the check is deleted."""
    check, judge = a_pair()
    narrow = active(1, name="check", conditions=[{"field": "name", "op": "=", "value": "span 1"}])
    in_force = InForce(rules=(narrow, judge))
    with a_store(tmp_path) as store, matching(store, in_force) as live:
        remember(store, check, judge)
        commit(store, a_batch(an_export(3)))
        assert live.wait_matched(WAIT_S)
        assert rows(store, DECISIONS) == [("unflagged",), ("held",), ("unflagged",)]
        write(store, "UPDATE rule SET deleted_at = now()::TIMESTAMP WHERE rule_id = 'rule-1'")
        store_results(store, JobResult(job_id=2, name="check", outcome="skipped", error_kind="rule_deleted"))
        assert rows(store, "SELECT count(*) FROM job") == [(0,)]


def test_rules_about_traces_and_later_rounds(tmp_path: Path) -> None:
    """Late spans have both rules judge again, and the second round depends on the second result of the check alone."""
    in_force = InForce(rules=a_pair(target="TRACE"))
    with a_store(tmp_path) as store, matching(store, in_force) as live:
        remember(store, *in_force.rules)
        come(store, an_export(1))
        assert live.wait_matched(WAIT_S)
        in_force.clock.pass_s(11)
        assert live.wait_matched(WAIT_S)
        store_results(store, scored(1))
        assert rows(store, JOBS) == [(2, "ready")]
        store_results(store, scored(2, 1.0, passed=True))
        come(store, children(1, first=3))
        assert live.wait_matched(WAIT_S)
        in_force.clock.pass_s(11)
        assert live.wait_matched(WAIT_S)
        assert rows(store, JOBS) == [(4, "held")]
        assert rows(store, "SELECT job_id FROM superseded ORDER BY job_id") == [(1,), (2,)]
        store_results(store, scored(3, 1.0, passed=True))
        assert rows(store, JOBS) == []
        assert rows(store, DECISIONS) == [("unflagged",)]


def test_a_trace_is_judged_once_one_of_its_spans_is_flagged(tmp_path: Path) -> None:
    """A span may be flagged before or after its trace has settled; a trace whose spans all pass is not judged."""
    in_force = InForce(rules=a_pair(target="TRACE", of="SPAN"))
    with a_store(tmp_path) as store, matching(store, in_force) as live:
        remember(store, *in_force.rules)
        come(store, *(an_export(2, first=2 * number, trace=number) for number in range(3)))
        assert live.wait_matched(WAIT_S)
        early, fine, late = ([first, first + 1] for first in (1, 3, 5))
        store_results(store, scored(early[0]), *(scored(each, 1.0, passed=True) for each in fine))
        in_force.clock.pass_s(11)
        assert live.wait_matched(WAIT_S)
        of_traces = "SELECT trace_id, state FROM job WHERE revision = 2 ORDER BY trace_id"
        assert rows(store, of_traces) == [(trace_id(0), "ready"), (trace_id(2), "held")]
        store_results(store, scored(late[0], 1.0, passed=True))
        assert rows(store, of_traces) == [(trace_id(0), "ready"), (trace_id(2), "held")]
        store_results(store, scored(late[1]), scored(early[1]))
        assert rows(store, of_traces) == [(trace_id(0), "ready"), (trace_id(2), "ready")]
        assert rows(store, "SELECT count(*) FROM job WHERE revision = 2") == [(2,)]


def test_rules_that_go_by_each_other_in_a_row(tmp_path: Path) -> None:
    """A target that the first rule passes is dropped for all later rules at once, and a flagged one awaits the next."""
    first, second = a_pair()
    third = active(3, name="last", after={"rule": "rule-2", "below": 0.5})
    in_force = InForce(rules=(first, second, third))
    each = "SELECT job_id, state FROM job ORDER BY job_id"
    with a_store(tmp_path) as store, matching(store, in_force) as live:
        remember(store, *in_force.rules)
        commit(store, a_batch(an_export(2)))
        assert live.wait_matched(WAIT_S)
        store_results(store, scored(1), scored(4, 1.0, passed=True))
        assert rows(store, each) == [(2, "ready"), (3, "held")]
        store_results(store, scored(2))
        assert rows(store, each) == [(3, "ready")]


def test_a_backfill_goes_by_results_that_are_stored(tmp_path: Path) -> None:
    """A backfill judges the targets flagged so far, and if repeated those flagged later, each target once."""
    check, judge = a_pair()
    in_force = InForce(rules=(check,))
    window = START_NS, START_NS + 10**9
    with a_store(tmp_path) as store, matching(store, in_force) as live:
        remember(store, check, judge)
        commit(store, a_batch(an_export(3)))
        assert live.wait_matched(WAIT_S)
        store_results(store, scored(1), scored(2, 1.0, passed=True), scored(3, 1.0, passed=True))
        in_force.rules = (check, judge)
        backfill = finished(live, live.backfills.start(judge, *window))
        assert (backfill.looked_at, backfill.matched) == (3, 3)
        assert rows(store, "SELECT job_id, state, occasion FROM job") == [(4, "ready", "backfill")]
        write(store, "UPDATE evaluation SET passed = false WHERE job_id = 2")
        again = finished(live, live.backfills.start(judge, *window))
        assert (again.looked_at, again.matched) == (2, 2)
        assert [state for _, state in rows(store, JOBS)] == ["ready", "ready"]
        assert rows(store, "SELECT count(*), count(DISTINCT seq) FROM decision WHERE revision = 2") == [(3, 3)]
        store_results(store, *(scored(int(str(job)), 1.0, passed=True) for job, _ in rows(store, JOBS)))
        once_more = finished(live, live.backfills.start(judge, *window))
        assert (once_more.looked_at, rows(store, JOBS)) == (1, [])


@pytest.mark.simulation
@settings(max_examples=25, deadline=None)
@given(
    flags=st.lists(st.sampled_from(("flagged", "passed", "broken")), min_size=1, max_size=5),
    order=st.randoms(use_true_random=False),
)
def test_whatever_the_order_of_results_each_target_is_told_about_once(
    tmp_path_factory: pytest.TempPathFactory, flags: list[str], order: random.Random
) -> None:
    """Jobs of flagged targets are ready, of passed ones gone, of failed ones held, in whatever order results come."""
    in_force = InForce(rules=a_pair())
    result_of: dict[str, Callable[[int], JobResult]] = {
        "flagged": scored,
        "passed": lambda job: scored(job, 1.0, passed=True),
        "broken": broken,
    }
    with a_store(tmp_path_factory.mktemp("order")) as store, matching(store, in_force) as live:
        remember(store, *in_force.rules)
        commit(store, a_batch(an_export(len(flags))))
        assert live.wait_matched(WAIT_S)
        results = [result_of[flag](2 * number + 1) for number, flag in enumerate(flags)]
        order.shuffle(results)
        for result in results:
            store_results(store, result)
            store_results(store, result)  # a repeated turn, since it is unknown whether it was stored
        left = {"flagged": "ready", "broken": "held"}
        assert rows(store, JOBS) == [(2 * number + 2, left[flag]) for number, flag in enumerate(flags) if flag in left]


@pytest.mark.parametrize(
    "after, message",
    [
        ({"rule": "a"}, "after: must have a condition on the rule's result: passed, below, atLeast or outcome"),
        ({"passed": False}, "after.rule: is required"),
        ({"rule": "a", "passed": "no"}, "after.passed: must be true or false (got 'no')"),
        ({"rule": "a", "below": "low"}, "after.below: must be a number from -1000000 to 1000000 (got 'low')"),
        ({"rule": "a", "outcome": "bad"}, "after.outcome: must be one of scored, failed, skipped (got 'bad')"),
        ({"rule": "a", "outcome": "failed", "passed": True}, "after.outcome: failed has no score, so passed, below"),
        ({"rule": "a", "pased": True}, "after.pased: unknown key; did you mean passed?"),
        ("a", "after: must be a mapping"),
    ],
)
def test_what_cannot_be_meant_is_refused(after: object, message: str) -> None:
    """An invalid `after` is refused with the key that is wrong and what would be right."""
    with pytest.raises(BadRule) as caught:
        a_rule(after=after)
    assert message in str(caught.value)


def test_a_rule_tells_what_it_goes_by_and_others_keep_their_revisions() -> None:
    """A rule with `after` survives a round trip through its document, and documents of others lack the key."""
    rule = a_rule(after={"rule": "check", "passed": False, "below": 0.25})
    assert a_rule(**{**rule.document(), "name": "a rule"}) == rule
    assert str(rule.after) == "after 'check' did not pass and scored below 0.25"
    assert "after" not in a_rule().document()
    assert rule.revision != a_rule().revision
