"""Rules about traces decide once those have settled, over all their spans, and again when more of them comes."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.live.matching.matcher import Matcher
from rules.settling import Arrivals, Settling, settles_at_ns
from storage.judging.open_traces import SettleWaits
from storage.store import Store
from tests.matching import InForce, active, matching, remember, write
from tests.storing import START_NS, WAIT_S, a_batch, a_store, an_export, commit, rows, trace_id

pytestmark = pytest.mark.costly("collector/conventions", "collector/live", "collector/reading", "rules", "storage")

DECISIONS = "SELECT revision, outcome, clause FROM decision ORDER BY revision, seq"
JOBS = "SELECT job_id, revision, span_id, round, state FROM job ORDER BY job_id"
NAMED = [{"field": "name", "op": "=", "value": "span 3"}]
ABOUT_TRACES = (active(1, target="TRACE"), active(2, target="TRACE", conditions=NAMED))


def children(count: int, *, first: int, trace: int = 0) -> ExportTraceServiceRequest:
    """Return spans of a trace that are not roots."""
    request = an_export(count, first=first, trace=trace)
    for span in request.resource_spans[0].scope_spans[0].spans:
        span.parent_span_id = b"\xab" * 8
    return request


def come(store: Store, *exports: ExportTraceServiceRequest) -> None:
    """Commit spans, and let them count as read."""
    commit(store, *(a_batch(export) for export in exports))


def come_and_settle(store: Store, live: Matcher, in_force: InForce, export: ExportTraceServiceRequest) -> None:
    """Commit spans, and let time pass until their trace is decided about."""
    come(store, export)
    assert live.wait_matched(WAIT_S)
    in_force.clock.pass_s(11)
    assert live.wait_matched(WAIT_S)


def test_a_trace_is_decided_about_when_it_has_settled(tmp_path: Path) -> None:
    """Nothing is decided while more may come, and then once, over all spans of all batches."""
    in_force = InForce(rules=ABOUT_TRACES)
    with a_store(tmp_path) as store, matching(store, in_force) as live:
        for part in range(3):
            come(store, an_export(2, first=2 * part))
            assert live.wait_matched(WAIT_S)
            in_force.clock.pass_s(9)
        assert live.wait_matched(WAIT_S)
        assert rows(store, DECISIONS) == []
        in_force.clock.pass_s(1)
        assert live.wait_matched(WAIT_S)
        assert rows(store, DECISIONS) == [(1, 2, None), (2, 2, None)]
        assert rows(store, JOBS) == [(1, 1, None, 0, "ready"), (2, 2, None, 0, "ready")]
        assert rows(store, "SELECT count(*) FROM trace_open") == [(0,)]
        assert rows(
            store, "SELECT DISTINCT d.seq = s.seq FROM decision AS d, (SELECT max(seq) AS seq FROM span) AS s"
        ) == [(True,)]


def test_one_id_in_two_tenants_is_two_traces(tmp_path: Path) -> None:
    """Each settles by itself, and a late span of one has that one alone decided about again."""
    in_force = InForce(rules=(active(1, target="TRACE"), active(2, target="TRACE", tenant="a")))
    jobs = "SELECT tenant, revision, round FROM job ORDER BY tenant, revision, round"
    with a_store(tmp_path) as store, matching(store, in_force) as live:
        remember(store, *in_force.rules)
        commit(store, *(a_batch(an_export(2), tenant=tenant) for tenant in ("a", "b")))
        assert live.wait_matched(WAIT_S)
        waiting = "SELECT tenant, revision FROM decisions WHERE decision = 'waiting' ORDER BY ALL"
        assert rows(store, waiting) == [("a", 1), ("a", 2), ("b", 1)]
        in_force.clock.pass_s(10)
        assert live.wait_matched(WAIT_S)
        assert rows(store, jobs) == [("a", 1, 0), ("a", 2, 0), ("b", 1, 0)]
        write(store, "UPDATE job SET state = 'claimed'")
        commit(store, a_batch(an_export(1, first=2), tenant="b"))
        in_force.clock.pass_s(1)
        assert live.wait_matched(WAIT_S)
        in_force.clock.pass_s(10)
        assert live.wait_matched(WAIT_S)
        assert rows(store, jobs) == [("a", 1, 0), ("a", 2, 0), ("b", 1, 0), ("b", 1, 1)]
        assert rows(store, "SELECT j.tenant FROM superseded JOIN job AS j USING (job_id)") == [("b",)]


def test_a_root_that_never_comes_is_waited_for_so_long(tmp_path: Path) -> None:
    """Without a root a trace settles after the longer silence, and one that never falls silent after an hour."""
    in_force = InForce(rules=ABOUT_TRACES[:1])
    with a_store(tmp_path) as store, matching(store, in_force) as live:
        come(store, children(2, first=0), children(2, first=10, trace=1))
        assert live.wait_matched(WAIT_S)
        in_force.clock.pass_s(179)
        come(store, children(1, first=20, trace=1))
        assert live.wait_matched(WAIT_S)
        assert rows(store, DECISIONS) == []
        in_force.clock.pass_s(1)
        assert live.wait_matched(WAIT_S)
        assert rows(store, "SELECT trace_id FROM job") == [(trace_id(0),)]
        for minute in range(2, 30):
            in_force.clock.pass_s(120)
            come(store, children(1, first=20 + minute, trace=1))
            assert live.wait_matched(WAIT_S)
        in_force.clock.pass_s(121)
        assert live.wait_matched(WAIT_S)
        assert rows(store, "SELECT trace_id FROM job ORDER BY job_id") == [(trace_id(0),), (trace_id(1),)]


def test_late_spans_open_a_trace_again(tmp_path: Path) -> None:
    """Decisions are replaced, a waiting job stays one, and a begun or finished one is followed by a next round."""
    in_force = InForce(rules=ABOUT_TRACES)
    with a_store(tmp_path) as store, matching(store, in_force) as live:
        come_and_settle(store, live, in_force, an_export(1, first=0))
        assert rows(store, DECISIONS) == [(1, 2, None), (2, 0, 1)]
        # after a root that ended before, the shorter silence is enough
        come_and_settle(store, live, in_force, children(1, first=1))
        assert rows(store, DECISIONS) == [(1, 2, None), (2, 0, 1)]
        assert rows(store, JOBS) == [(1, 1, None, 0, "ready")]
        write(store, "UPDATE job SET state = 'claimed'")
        come_and_settle(store, live, in_force, children(1, first=3))
        assert rows(store, DECISIONS) == [(1, 2, None), (2, 2, None)]
        assert rows(store, JOBS) == [
            (1, 1, None, 0, "claimed"),
            (2, 1, None, 1, "ready"),
            (3, 2, None, 0, "ready"),
        ]
        assert rows(store, "SELECT job_id FROM superseded") == [(1,)]
        done = "job_id, revision, seq, tenant, trace_id, span_id, round, attempts, created_at"
        write(store, f"INSERT INTO evaluation BY NAME SELECT {done}, 'x' AS name, 'scored' AS outcome FROM job")
        write(store, "DELETE FROM job")
        come_and_settle(store, live, in_force, children(1, first=4))
        assert rows(store, JOBS) == [(4, 1, None, 2, "ready"), (5, 2, None, 1, "ready")]
        assert rows(store, "SELECT job_id FROM superseded ORDER BY job_id") == [(1,), (2,), (3,)]
        assert rows(store, "SELECT count(*), count(DISTINCT revision) FROM decision") == [(2, 2)]


def test_a_rule_that_judges_once_keeps_what_was_begun(tmp_path: Path) -> None:
    """Late spans change nothing once a job was claimed: neither decision, job nor result; until then as ever."""
    once = active(1, target="TRACE", judge="once"), active(2, target="TRACE", judge="once", conditions=NAMED)
    in_force = InForce(rules=(*once, active(3, target="TRACE")))
    with a_store(tmp_path) as store, matching(store, in_force) as live:
        come_and_settle(store, live, in_force, an_export(1, first=0))
        come_and_settle(store, live, in_force, children(1, first=1))
        assert rows(store, JOBS) == [(1, 1, None, 0, "ready"), (2, 3, None, 0, "ready")]
        assert rows(store, "SELECT DISTINCT j.seq = s.seq FROM job AS j, (SELECT max(seq) AS seq FROM span) AS s") == [
            (True,)
        ]
        write(store, "UPDATE job SET state = 'claimed'")
        kept = rows(store, "SELECT seq FROM decision WHERE revision = 1")
        come_and_settle(store, live, in_force, children(1, first=3))
        assert rows(store, DECISIONS) == [(1, 2, None), (2, 2, None), (3, 2, None)]
        assert rows(store, "SELECT seq FROM decision WHERE revision = 1") == kept
        assert rows(store, JOBS) == [
            (1, 1, None, 0, "claimed"),
            (2, 3, None, 0, "claimed"),
            (3, 2, None, 0, "ready"),
            (4, 3, None, 1, "ready"),
        ]
        assert rows(store, "SELECT job_id FROM superseded") == [(2,)]
        done = "job_id, revision, seq, tenant, trace_id, span_id, round, attempts, created_at"
        write(store, f"INSERT INTO evaluation BY NAME SELECT {done}, 'x' AS name, 'scored' AS outcome FROM job")
        write(store, "DELETE FROM job")
        come_and_settle(store, live, in_force, children(1, first=4))
        assert rows(store, JOBS) == [(5, 3, None, 2, "ready")]
        assert rows(store, "SELECT job_id FROM superseded ORDER BY job_id") == [(2,), (4,)]
        assert rows(store, "SELECT count(*), count(DISTINCT revision) FROM decision") == [(3, 3)]


@pytest.mark.parametrize(
    "was, counted, is_now",
    [("live", True, "again"), ("live", False, "live"), ("again", False, "again"), ("backfill", False, "backfill")],
)
def test_a_later_round_knows_what_was_counted(tmp_path: Path, was: str, is_now: str, *, counted: bool) -> None:
    """Of a target that was counted no later round is news, and none of what a backfill found."""
    in_force = InForce(rules=(active(1, target="TRACE"),))
    with a_store(tmp_path) as store, matching(store, in_force) as live:
        come(store, an_export(1))
        assert live.wait_matched(WAIT_S)
        in_force.clock.pass_s(11)
        assert live.wait_matched(WAIT_S)
        assert rows(store, "SELECT occasion FROM job") == [("live",)]
        done = "job_id, revision, seq, tenant, trace_id, span_id, round, attempts, created_at"
        write(
            store,
            f"INSERT INTO evaluation BY NAME SELECT {done}, 'x' AS name, 'scored' AS outcome, "
            f"'{was}' AS occasion, {counted} AS counted FROM job",
        )
        write(store, "DELETE FROM job")
        come(store, children(1, first=5))
        assert live.wait_matched(WAIT_S)
        in_force.clock.pass_s(11)
        assert live.wait_matched(WAIT_S)
        assert rows(store, "SELECT round, occasion FROM job") == [(1, is_now)]


def test_the_revision_in_force_at_settling_decides(tmp_path: Path) -> None:
    """A rule edited while a trace was open decides once, by its latest revision; a deleted one not at all."""
    in_force = InForce(rules=(active(1, target="TRACE"), active(2, target="TRACE", name="other")))
    with a_store(tmp_path) as store, matching(store, in_force) as live:
        come(store, an_export(4), an_export(1, trace=1, first=10))
        assert live.wait_matched(WAIT_S)
        in_force.rules = (active(3, target="TRACE", conditions=NAMED),)
        in_force.clock.pass_s(11)
        assert live.wait_matched(WAIT_S)
        assert rows(store, DECISIONS) == [(3, 2, None), (3, 0, 1)]
        in_force.rules = ()
        come(store, an_export(1, trace=1, first=20))
        assert live.wait_matched(WAIT_S)
        in_force.clock.pass_s(11)
        assert live.wait_matched(WAIT_S)
        assert rows(store, "SELECT count(*) FROM decision") == [(2,)]
        assert rows(store, "SELECT count(*) FROM trace_open") == [(0,)]


def test_two_rules_of_one_name_decide_apart(tmp_path: Path) -> None:
    """A name is not a key: each rule has its decision and its job."""
    in_force = InForce(rules=(active(1, target="TRACE"), active(2, target="TRACE"), active(3), active(4)))
    with a_store(tmp_path) as store, matching(store, in_force) as live:
        come(store, an_export(1))
        assert live.wait_matched(WAIT_S)
        in_force.clock.pass_s(11)
        assert live.wait_matched(WAIT_S)
        assert rows(store, "SELECT revision FROM job ORDER BY revision") == [(1,), (2,), (3,), (4,)]


def test_a_trace_belongs_to_the_project_service_and_release_of_its_root(tmp_path: Path) -> None:
    """If the root has no release, the trace has that of its first span with one."""
    rules = (active(1, target="TRACE"), active(2, target="TRACE", compareBy="build"), active(3, compareBy="build"))
    in_force = InForce(rules=rules)
    request, other = an_export(2), children(1, first=5)
    other.resource_spans[0].resource.attributes[0].value.string_value = "worker"
    other.resource_spans[0].resource.attributes.add(key="service.version").value.string_value = "1"
    request.resource_spans[0].resource.attributes.add(key="build").value.string_value = "r7"
    request.resource_spans[0].scope_spans[0].spans[1].attributes.add(key="build").value.string_value = "s8"
    with a_store(tmp_path) as store, matching(store, in_force) as live:
        come(store, other)
        come(store, request)
        assert live.wait_matched(WAIT_S)
        in_force.clock.pass_s(11)
        assert live.wait_matched(WAIT_S)
        stored = rows(store, "SELECT revision, project, release FROM job ORDER BY revision, release")
        assert stored == [
            (1, "shop", "1"),
            (2, "shop", "r7"),
            (3, "shop", "r7"),
            (3, "shop", "s8"),
            (3, "worker", None),
        ]
        query = """
            SELECT DISTINCT j.span_id IS NULL, j.service
            FROM job AS j
            JOIN traces AS t USING (trace_id)
            LEFT JOIN spans AS s ON s.trace_id = j.trace_id AND s.span_id = j.span_id
            WHERE j.service = coalesce(s.service_name, t.service_name)
                AND j.started_at = coalesce(s.start_time, t.start_time)::TIMESTAMP
            ORDER BY ALL
        """
        assert rows(store, query) == [(False, "shop"), (False, "worker"), (True, "shop")]
        assert rows(store, "SELECT count(*) FROM job WHERE service IS NULL OR started_at IS NULL") == [(0,)]


def test_a_large_trace_settles_as_a_whole(tmp_path: Path) -> None:
    """A trace of 20,000 spans in many batches is one decision, made part by part."""
    in_force = InForce(
        rules=(*ABOUT_TRACES, active(3, target="TRACE", conditions=[{"field": "name", "op": "=", "value": "x"}]))
    )
    with a_store(tmp_path) as store, matching(store, in_force) as live:
        for part in range(20):
            come(store, children(1000, first=1000 * part))
        assert live.wait_matched(WAIT_S)
        in_force.clock.pass_s(181)
        assert live.wait_matched(WAIT_S)
        assert rows(store, DECISIONS) == [(1, 2, None), (2, 2, None), (3, 0, 1)]


def test_thousands_of_traces_settle_together(tmp_path: Path) -> None:
    """More traces than are decided about at once settle all, each once."""
    in_force = InForce(rules=ABOUT_TRACES)
    with a_store(tmp_path) as store, matching(store, in_force) as live:
        request = an_export(4_500)
        for number, span in enumerate(request.resource_spans[0].scope_spans[0].spans):
            span.trace_id = bytes.fromhex(trace_id(number))
        come(store, request)
        assert live.wait_matched(WAIT_S)
        in_force.clock.pass_s(11)
        assert live.wait_matched(WAIT_S)
        assert rows(
            store, "SELECT revision, count(*), count(DISTINCT seq) FROM decision GROUP BY ALL ORDER BY ALL"
        ) == [
            (1, 4500, 4500),
            (2, 4500, 4500),
        ]


def test_a_clock_that_was_set_back_is_not_waited_for(tmp_path: Path) -> None:
    """What seems to have come later than now, after a restart, came now."""
    in_force = InForce(rules=ABOUT_TRACES[:1])
    with a_store(tmp_path) as store:
        with matching(store, in_force) as live:
            come(store, an_export(1))
            assert live.wait_matched(WAIT_S)
        in_force.clock.pass_s(-86_400)
        with matching(store, in_force) as live:
            assert live.wait_matched(WAIT_S)
            assert rows(store, DECISIONS) == []
            in_force.clock.pass_s(11)
            assert live.wait_matched(WAIT_S)
            assert rows(store, DECISIONS) == [(1, 2, None)]


@pytest.fixture(scope="module")
def open_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Yield a store for many examples."""
    with a_store(tmp_path_factory.mktemp("open")) as store:
        yield store


@given(
    parts=st.lists(st.tuples(st.integers(0, 400), st.booleans()), min_size=1, max_size=4),
    now_s=st.integers(0, 900),
    waits=st.tuples(st.integers(0, 30), st.integers(0, 200), st.integers(0, 600)),
)
def test_sql_settles_traces_as_python_does(
    open_store: Store, parts: list[tuple[int, bool]], now_s: int, waits: tuple[int, int, int]
) -> None:
    """Whatever came when, both say the same of whether the trace has settled."""
    settling = Settling(after_root_s=waits[0], quiet_s=waits[1], longest_s=waits[2])
    received = [START_NS + at_s * 10**9 for at_s, _ in parts]
    arrivals = Arrivals(root_ended=any(root for _, root in parts), first_ns=min(received), last_ns=max(received))
    write(open_store, "DELETE FROM trace_open")
    for at_ns, (_, root) in zip(received, parts, strict=True):
        at = f"make_timestamp({at_ns // 1000})"
        write(open_store, f"INSERT INTO trace_open VALUES ('', '{trace_id(0)}', {at}, {at}, {root}, 1, 1)")
    now_us = START_NS // 1000 + now_s * 10**6
    settle_waits = SettleWaits(after_root_us=waits[0] * 10**6, quiet_us=waits[1] * 10**6, longest_us=waits[2] * 10**6)
    due = open_store.matching.open_traces.due(settle_waits, now_us=now_us, looked_us=now_us, most=9)
    settles_ns = settles_at_ns(arrivals, settling)
    assert (due.traces.num_rows == 1) is (now_us * 1000 >= settles_ns)
    if not due.traces.num_rows:  # nothing is missed by who looks again at the time that it names
        assert due.next_us is not None
        assert due.next_us > now_us
        assert (due.next_us - 1) * 1000 < settles_ns
