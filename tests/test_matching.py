"""Spans are matched once they are read: each by each rule, once, and what matches becomes a job."""

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from collector.live.matching.matcher import Matcher, MatcherEnvironment
from rules.settling import Settling
from storage.engine.database import Database
from storage.engine.rule_matcher_db import Expression
from storage.errors import WriteConflict
from storage.judging.span_window import WindowLimits
from storage.store import Store
from tests.matching import InForce, active, matching, reading_and_matching, remember, write
from tests.storing import WAIT_S, a_batch, a_store, an_export, commit, rows, trace_id

pytestmark = pytest.mark.costly("collector/conventions", "collector/live", "collector/reading", "rules", "storage")

DECISIONS = "SELECT revision, outcome, clause, count(*) FROM decision GROUP BY ALL ORDER BY ALL"
NAMED = [{"field": "name", "op": "=", "value": "span 3"}]


def test_every_rule_decides_about_every_span(tmp_path: Path) -> None:
    """A span is filtered by a clause, sampled out or matched, by each rule, and what matches is a job of its own."""
    rules = (active(1), active(2, conditions=NAMED), active(3, sampleRate=0), active(4, project="other"))
    in_force = InForce(rules=rules)
    with a_store(tmp_path) as store, reading_and_matching(store, in_force) as wait:
        commit(store, a_batch(an_export(5)))
        assert wait()
        assert rows(store, DECISIONS) == [(1, 2, None, 5), (2, 0, 1, 4), (2, 2, None, 1), (3, 1, None, 5), (4, 0, 1, 5)]
        jobs = "SELECT job_id, revision, project, span_id, round, state, attempts FROM job ORDER BY job_id"
        assert [row[0] for row in rows(store, jobs)] == [1, 2, 3, 4, 5, 6]
        assert rows(store, jobs)[3:5] == [
            (4, 1, "shop", f"{4:016x}", 0, "ready", 0),
            (5, 2, "shop", f"{4:016x}", 0, "ready", 0),
        ]
        assert in_force.enqueued == 1


def test_a_rule_is_about_its_tenant(tmp_path: Path) -> None:
    """Spans of other tenants are none of its candidates."""
    with a_store(tmp_path) as store, matching(store, InForce(rules=(active(1, tenant="a"),))) as live:
        commit(store, a_batch(an_export(2), tenant="a"), a_batch(an_export(3), tenant="b"))
        assert live.wait_matched(WAIT_S)
        assert rows(store, DECISIONS) == [(1, 2, None, 2)]
        assert rows(store, "SELECT DISTINCT tenant, trace_id FROM job") == [("a", trace_id(0))]


def test_a_rule_of_nobody_is_about_everybody(tmp_path: Path) -> None:
    """It decides about the spans of each tenant, and its jobs belong to the tenant of the span."""
    with a_store(tmp_path) as store, matching(store, InForce(rules=(active(1), active(2, tenant="a")))) as live:
        commit(store, *(a_batch(an_export(2), tenant=tenant) for tenant in ("a", "b", "")))
        assert live.wait_matched(WAIT_S)
        assert rows(store, DECISIONS) == [(1, 2, None, 6), (2, 2, None, 2)]
        jobs = "SELECT tenant, revision, count(*) FROM job GROUP BY ALL ORDER BY ALL"
        assert rows(store, jobs) == [("", 1, 2), ("a", 1, 2), ("a", 2, 2), ("b", 1, 2)]


def test_matching_goes_on_where_it_stopped(tmp_path: Path) -> None:
    """After a restart no span is matched twice, none is left out, and numbers of jobs go on."""
    for part in range(3):
        with a_store(tmp_path) as store:
            commit(store, a_batch(an_export(4, first=4 * part)))
            with matching(store, InForce(rules=(active(1),))) as live:
                assert live.wait_matched(WAIT_S)
            assert rows(store, "SELECT count(*), count(DISTINCT seq) FROM decision") == [(4 * part + 4,) * 2]
            assert rows(store, "SELECT count(DISTINCT job_id), max(job_id) FROM job") == [(4 * part + 4,) * 2]


def test_a_new_rule_decides_about_what_comes_after_it(tmp_path: Path) -> None:
    """While there is no rule spans pass by, and a rule that comes later does not look back."""
    in_force = InForce()
    with a_store(tmp_path) as store, matching(store, in_force) as live:
        for part, rule in enumerate(((), (active(1),))):
            in_force.rules = rule
            commit(store, a_batch(an_export(3, first=3 * part)))
            assert live.wait_matched(WAIT_S)
        assert rows(store, DECISIONS) == [(1, 2, None, 3)]
        assert cursor_is_at_the_end(store)


def cursor_is_at_the_end(store: Store) -> bool:
    """Return whether everything that is committed is matched."""
    return rows(store, "SELECT m.seq >> 20 = i.batch FROM matching_state AS m, ingest_state AS i") == [(True,)]


def some_traces(store: Store, exports: int) -> None:
    """Store spans of some traces in one commit."""
    commit(store, *(a_batch(an_export(3, trace=number, first=10 * number)) for number in range(exports)))


def test_a_rule_that_cannot_be_asked_is_told_apart(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Where DuckDB fails at the statement of a rule, its decisions are "undecided", and all others are made."""
    rules = (active(1), active(2), active(3, target="TRACE"), active(4, target="TRACE"))
    in_force = InForce(rules=rules)
    with a_store(tmp_path) as store, matching(store, in_force) as live:
        whole = live._ask()
        broken = Expression(sql="error('as the test wants')::INTEGER", parameters={})
        live._questions = replace(
            whole,
            spans=(replace(whole.spans[0], clause=broken), whole.spans[1]),
            traces=(replace(whole.traces[0], clause=broken), whole.traces[1]),
        )
        for part in range(2):
            commit(store, a_batch(an_export(3, first=3 * part)))
            assert live.wait_matched(WAIT_S)
        in_force.clock.pass_s(11)
        assert live.wait_matched(WAIT_S)
        assert rows(store, DECISIONS) == [(1, 3, None, 6), (2, 2, None, 6), (3, 3, None, 1), (4, 2, None, 1)]
        assert rows(store, "SELECT DISTINCT revision FROM job ORDER BY revision") == [(2,), (4,)]
        assert {number: "as the test wants" in why for number, why in live.problems.items()} == {1: True, 3: True}
        assert len([record for record in caplog.records if "cannot be matched" in record.message]) == 2
        assert cursor_is_at_the_end(store)


@pytest.mark.parametrize("commits", [True, False])
def test_a_commit_that_fails_leads_to_no_duplicates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, commits: bool
) -> None:
    """Whether a commit that raises was made or not, each span and each trace is decided about once."""
    monkeypatch.setattr("collector.live.matching.matcher._PAUSE_S", 0.01)
    in_force = InForce(rules=(active(1), active(2, target="TRACE")))
    turn = itertools.count()
    whole = Database.transaction

    @contextmanager
    def sometimes(database: Database) -> Iterator[duckdb.DuckDBPyConnection]:
        if threading.current_thread().name != "duckdb-writer" or next(turn) % 2:
            with whole(database) as cursor:
                yield cursor
        elif commits:
            with whole(database) as cursor:
                yield cursor
            raise duckdb.IOException("the checkpoint after the commit")
        else:
            with whole(database) as cursor:
                yield cursor
                raise duckdb.IOException("the commit")

    with a_store(tmp_path) as store:
        some_traces(store, 10)
        monkeypatch.setattr(Database, "transaction", sometimes)
        with matching(store, in_force) as live:
            assert live.wait_matched(WAIT_S)
            in_force.clock.pass_s(11)
            assert live.wait_matched(WAIT_S)
        monkeypatch.setattr(Database, "transaction", whole)
        assert rows(store, DECISIONS) == [(1, 2, None, 30), (2, 2, None, 10)]
        assert rows(store, "SELECT count(*), count(DISTINCT job_id), max(job_id) FROM job") == [(40, 40, 40)]
        assert next(turn) > 3


def test_a_step_from_somewhere_else_is_refused(tmp_path: Path) -> None:
    """Decisions about a window are stored only if the cursor still stands before it."""
    with a_store(tmp_path) as store:
        some_traces(store, 1)
        state = store.matching.state()
        store.matching.pass_over(state)
        with pytest.raises(WriteConflict):
            store.matching.pass_over(state)


def test_matching_waits_for_ingest_only_so_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While ingest is behind, matching is put off, but not for ever."""
    monkeypatch.setattr("collector.follower.LONGEST_YIELD_S", 0.2)
    with a_store(tmp_path) as store:
        behind = MatcherEnvironment(ingest_is_behind=lambda: True)
        in_force = InForce(rules=(active(1),))
        live = Matcher(store.matching, lambda: in_force.rules, Settling(), enqueued=lambda: None, surroundings=behind)
        live.start()
        try:
            some_traces(store, 1)
            assert live.wait_matched(WAIT_S)
            assert rows(store, DECISIONS) == [(1, 2, None, 3)]
        finally:
            live.close()


def test_large_spans_are_taken_out_in_smaller_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What rules ask of a window, or of a trace, is bounded by bytes, and none is left out for that."""
    monkeypatch.setattr("collector.live.matching.matcher._NBYTES", 1 << 18)
    monkeypatch.setattr("collector.live.matching.settler._LIMITS", WindowLimits(rows=100, nbytes=1 << 18))
    about = [{"field": "attributes.text", "op": "endsWith", "value": "7"}]
    in_force = InForce(rules=(active(1, conditions=about), active(2, target="TRACE", conditions=about)))
    request = an_export(200)
    for number, span in enumerate(request.resource_spans[0].scope_spans[0].spans):
        span.attributes.add(key="text").value.string_value = f"{'x' * 5_000}{number}"
    request.resource_spans[0].scope_spans[0].spans[3].attributes[0].value.string_value = "y" * 200_000
    with a_store(tmp_path) as store, matching(store, in_force) as live:
        commit(store, a_batch(request))
        assert live.wait_matched(WAIT_S)
        in_force.clock.pass_s(11)
        assert live.wait_matched(WAIT_S)
        assert rows(store, DECISIONS) == [(1, 0, 1, 180), (1, 2, None, 20), (2, 2, None, 1)]


def test_decisions_are_told(tmp_path: Path) -> None:
    """The view has one row for each rule and target, with what became of it since; a trace's are found by its id."""
    rules = (active(1), active(2, conditions=NAMED), active(3, sampleRate=0), active(4, target="TRACE", name="whole"))
    in_force = InForce(rules=rules)
    with a_store(tmp_path) as store, matching(store, in_force) as live:
        remember(store, *rules)
        commit(store, a_batch(an_export(4)))
        assert live.wait_matched(WAIT_S)
        query = "SELECT revision, decision, clause, count(*) FROM decisions GROUP BY ALL ORDER BY ALL"
        assert rows(store, query) == [
            (1, "ready", None, 4), (2, "filtered", 'name = "span 3"', 3), (2, "ready", None, 1),
            (3, "sampled_out", None, 4), (4, "waiting", None, 1),
        ]  # fmt: skip
        in_force.clock.pass_s(11)
        assert live.wait_matched(WAIT_S)
        write(store, "UPDATE job SET state = 'claimed' WHERE revision = 4")
        write(store, "UPDATE job SET not_before = '2999-01-01' WHERE revision = 2")
        done = "job_id, revision, seq, tenant, trace_id, span_id, round, attempts, created_at"
        write(
            store,
            f"INSERT INTO evaluation BY NAME SELECT {done}, 'x' AS name, "
            "['scored', 'failed', 'skipped', 'skipped'][job_id] AS outcome, "
            "[NULL, 'x', 'over_budget', 'rule_deleted'][job_id] AS error_kind FROM job WHERE job_id <= 4",
        )
        write(store, "DELETE FROM job WHERE job_id <= 4")
        since = "SELECT revision, decision FROM decisions WHERE decision <> 'filtered' ORDER BY ALL"
        assert rows(store, since) == [
            (1, "failed"), (1, "over_budget"), (1, "scored"), (1, "skipped"), (2, "waiting"),
            *[(3, "sampled_out")] * 4, (4, "claimed"),
        ]  # fmt: skip
        trace, *spans = store.judgements.of_trace(trace_id(0)).decisions
        assert (trace.rule, trace.span_id, trace.decision) == ("whole", None, "claimed")
        assert len(spans) == 12
        assert store.judgements.of_trace(trace_id(9)).decisions == ()
        assert store.judgements.of_trace(trace_id(0), tenant="other").decisions == ()
        commit(store, a_batch(an_export(1, first=50)))
        assert live.wait_matched(WAIT_S)
        trace, *_ = store.judgements.of_trace(trace_id(0)).decisions
        assert (trace.decision, trace.decided_at_ns) == ("waiting", None)
