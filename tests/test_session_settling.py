"""Rules about sessions decide once these have come to rest, over all their traces, and again when more comes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from storage.store import Store
from tests.matching import InForce, active, reading_and_matching, remember, write
from tests.storing import START_NS, a_batch, a_store, an_export, commit, rows, trace_id

pytestmark = pytest.mark.costly("collector/conventions", "collector/live", "collector/reading", "rules", "storage")

DECISIONS = "SELECT revision, outcome, clause FROM decision ORDER BY revision, seq"
JOBS = "SELECT revision, session_id, trace_id, span_id, round, state FROM job ORDER BY job_id"
NAMED = [{"field": "name", "op": "=", "value": "span 3"}]
S = 1_000_000_000


def a_turn(store: Store, number: int, session: str | None, *, first: int = 0, spans: int = 2, tenant: str = "") -> None:
    """Commit a trace, or more of it, whose first span has the session id."""
    export = an_export(spans, first=first, trace=number)
    for span in export.resource_spans[0].scope_spans[0].spans:
        span.start_time_unix_nano = span.end_time_unix_nano = START_NS + number * S + first
    if session is not None:
        attribute = export.resource_spans[0].scope_spans[0].spans[0].attributes.add(key="session.id")
        attribute.value.string_value = session
    commit(store, a_batch(export, tenant=tenant))


@contextmanager
def at_work(folder: Path, in_force: InForce) -> Iterator[tuple[Store, Callable[[float], None]]]:
    """Open a store with a matcher and sums of traces; and what lets time pass and everything be decided about."""
    with a_store(folder) as store, reading_and_matching(store, in_force) as wait:
        remember(store, *in_force.rules)

        def pass_s(seconds: float) -> None:
            assert wait()
            in_force.clock.pass_s(seconds)
            assert wait()
            assert wait()  # what settled is there now

        yield store, pass_s


def test_a_session_is_decided_about_when_it_has_come_to_rest(tmp_path: Path) -> None:
    """Nothing is decided while turns come, then once over the spans of all of them; traces of no session are none."""
    in_force = InForce(rules=(active(1, target="SESSION"), active(2, target="SESSION", conditions=NAMED)))
    with at_work(tmp_path, in_force) as (store, pass_s):
        a_turn(store, 9, None)
        for number in range(3):
            a_turn(store, number, "talk", spans=4 if number == 0 else 2)
            pass_s(300)
        assert rows(store, DECISIONS) == []
        waiting = "SELECT session_id, revision, decision FROM decisions ORDER BY ALL"
        assert rows(store, waiting) == [("talk", 1, "waiting"), ("talk", 2, "waiting")]
        pass_s(600)
        assert rows(store, DECISIONS) == [(1, 2, None), (2, 2, None)]
        last = trace_id(2)
        assert rows(store, JOBS) == [(1, "talk", last, None, 0, "ready"), (2, "talk", last, None, 0, "ready")]
        assert rows(store, "SELECT count(*) FROM session_open") == [(0,)]
        query = "SELECT session_id, trace_id, span_id, revision, decision FROM decisions ORDER BY revision"
        assert rows(store, query) == [("talk", last, None, 1, "ready"), ("talk", last, None, 2, "ready")]


def test_a_late_trace_opens_a_session_again(tmp_path: Path) -> None:
    """Decisions are replaced, a waiting job stays one, and a begun one is followed by a next round."""
    in_force = InForce(rules=(active(1, target="SESSION"), active(2, target="SESSION", conditions=NAMED)))
    with at_work(tmp_path, in_force) as (store, pass_s):

        def comes(number: int, *, first: int = 0) -> None:
            a_turn(store, number, "talk", first=first)
            pass_s(11)
            pass_s(900)

        comes(0)
        assert rows(store, DECISIONS) == [(1, 2, None), (2, 0, 1)]
        comes(1)
        assert rows(store, DECISIONS) == [(1, 2, None), (2, 0, 1)]
        assert rows(store, JOBS) == [(1, "talk", trace_id(1), None, 0, "ready")]
        write(store, "UPDATE job SET state = 'claimed'")
        comes(0, first=3)  # a late span of an early turn
        assert rows(store, DECISIONS) == [(1, 2, None), (2, 2, None)]
        assert rows(store, JOBS) == [
            (1, "talk", trace_id(1), None, 0, "claimed"),
            (1, "talk", trace_id(1), None, 1, "ready"),
            (2, "talk", trace_id(1), None, 0, "ready"),
        ]
        assert rows(store, "SELECT job_id FROM superseded") == [(1,)]


def test_a_rule_that_judges_once_keeps_what_was_begun_of_a_session(tmp_path: Path) -> None:
    """A trace that comes after a job was claimed changes neither the decision nor the job."""
    in_force = InForce(rules=(active(1, target="SESSION", judge="once"), active(2, target="SESSION")))
    with at_work(tmp_path, in_force) as (store, pass_s):
        a_turn(store, 0, "talk")
        pass_s(11)
        pass_s(900)
        write(store, "UPDATE job SET state = 'claimed'")
        a_turn(store, 1, "talk")
        pass_s(11)
        pass_s(900)
        rounds = "SELECT revision, round FROM job ORDER BY ALL"
        assert rows(store, rounds) == [(1, 0), (2, 0), (2, 1)]
        assert rows(store, "SELECT count(*) FROM decision") == [(2,)]


def test_each_rule_waits_as_long_as_it_says(tmp_path: Path) -> None:
    """`settle` counts from the last span; who waits longer decides later, also after a trace that came in between."""
    in_force = InForce(rules=(active(1, target="SESSION", settle=60), active(2, target="SESSION")))
    with at_work(tmp_path, in_force) as (store, pass_s):
        a_turn(store, 0, "talk")
        pass_s(11)
        assert rows(store, JOBS) == []
        pass_s(50)
        assert [row[0] for row in rows(store, JOBS)] == [1]
        write(store, "UPDATE job SET state = 'claimed'")
        a_turn(store, 1, "talk")
        pass_s(11)
        pass_s(50)
        assert [(row[0], row[4]) for row in rows(store, JOBS)] == [(1, 0), (1, 1)]
        pass_s(850)
        assert [(row[0], row[4]) for row in rows(store, JOBS)] == [(1, 0), (1, 1), (2, 0)]
        assert rows(store, "SELECT count(*) FROM session_open") == [(0,)]
        assert rows(store, "SELECT revision, outcome FROM decision ORDER BY ALL") == [(1, 2), (2, 2)]


def test_a_session_waits_for_its_traces(tmp_path: Path) -> None:
    """While a trace of it has not settled, it has not come to rest, however short the rule waits."""
    in_force = InForce(rules=(active(1, target="SESSION", settle=1),))
    with at_work(tmp_path, in_force) as (store, pass_s):
        a_turn(store, 0, "talk")
        pass_s(9)
        a_turn(store, 1, "talk")
        pass_s(5)
        assert rows(store, JOBS) == []
        pass_s(6)
        assert rows(store, JOBS) == [(1, "talk", trace_id(1), None, 0, "ready")]


def test_one_session_id_in_two_tenants_is_two_sessions(tmp_path: Path) -> None:
    """Each comes to rest by itself, and a rule of a tenant is about its own."""
    in_force = InForce(rules=(active(1, target="SESSION"), active(2, target="SESSION", tenant="a")))
    with at_work(tmp_path, in_force) as (store, pass_s):
        for number, tenant in enumerate("ab"):
            a_turn(store, number, "talk", tenant=tenant)
        pass_s(11)
        pass_s(900)
        assert rows(store, "SELECT tenant, revision FROM job ORDER BY ALL") == [("a", 1), ("a", 2), ("b", 1)]


@pytest.mark.costly("collector/live/matching", "rules", "storage/judging")
def test_sessions_are_sampled_whole(tmp_path: Path) -> None:
    """Sessions are sampled by their id, at about the rate, and each of the others is decided as sampled out."""
    in_force = InForce(rules=(active(1, target="SESSION", sampleRate=0.5),))
    with at_work(tmp_path, in_force) as (store, pass_s):
        for number in range(80):
            a_turn(store, number, f"talk {number // 2}", spans=1)
        pass_s(11)
        pass_s(900)
        judged = len(rows(store, JOBS))
        query = "SELECT decision, count(*), count(DISTINCT session_id) FROM decisions GROUP BY ALL ORDER BY ALL"
        stored = rows(store, query)
        assert stored == [("ready", judged, judged), ("sampled_out", 40 - judged, 40 - judged)]
        assert 8 <= judged <= 32


def test_sessions_of_simulated_users_are_passed_over(tmp_path: Path) -> None:
    """The last clause says so, unless a condition of the rule names the mark."""
    conditions = [{"field": "attributes.tracejury.simulated", "op": "exists", "value": True}]
    in_force = InForce(rules=(active(1, target="SESSION"), active(2, target="SESSION", conditions=conditions)))
    with at_work(tmp_path, in_force) as (store, pass_s):
        export = an_export(2)
        for span in export.resource_spans[0].scope_spans[0].spans:
            span.attributes.add(key="session.id").value.string_value = "played"
            span.attributes.add(key="tracejury.simulated").value.bool_value = True
        commit(store, a_batch(export))
        pass_s(11)
        pass_s(900)
        assert [(row[0], row[1]) for row in rows(store, JOBS)] == [(2, "played")]
        assert rows(store, DECISIONS) == [(1, 0, 1), (2, 2, None)]


def test_without_rules_about_sessions_nothing_is_remembered(tmp_path: Path) -> None:
    """Rules about traces alone leave no open sessions; a rule that is taken away leaves none behind."""
    in_force = InForce(rules=(active(1, target="TRACE"),))
    with at_work(tmp_path, in_force) as (store, pass_s):
        a_turn(store, 0, "talk")
        pass_s(11)
        assert rows(store, "SELECT count(*) FROM session_open") == [(0,)]
        in_force.rules = (active(1, target="TRACE"), active(2, target="SESSION"))
        a_turn(store, 1, "talk")
        pass_s(11)
        assert rows(store, "SELECT count(*) FROM session_open") == [(1,)]
        in_force.rules = (active(1, target="TRACE"),)
        a_turn(store, 2, None)
        pass_s(11)
        assert rows(store, "SELECT count(*) FROM session_open") == [(0,)]
