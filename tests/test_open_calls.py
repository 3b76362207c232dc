"""Results that only a later trace was sent: with the call in SQL, in whatever order traces come, change and leave."""

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.reading.updater import TraceUpdater
from storage.ingest import open_calls
from storage.ingest.known_times import LAST_NS
from storage.store import Store
from storage.upkeep.deletions import DeletionCriteria
from tests.conventions.making import call, response, text
from tests.matching import adding_up
from tests.storing import RECEIVED_AT_US, START_NS, WAIT_S, a_batch, a_store, commit, rows, span_id, trace_id

pytestmark = pytest.mark.costly("collector/conventions", "collector/reading", "storage")

SECOND_NS = 10**9
HOUR_S = 3_600
CALLS = "SELECT call_id, result, is_error, error FROM tool_calls ORDER BY start_time, call_id"
USER = text("user", "Is there any?")
Attributes = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Stored:
    """A store whose traces are summed."""

    store: Store
    traces: TraceUpdater

    def take(self, *requests: ExportTraceServiceRequest, tenant: str = "") -> None:
        """Store requests, and wait until their traces are summed."""
        commit(self.store, *(a_batch(request, tenant=tenant) for request in requests))
        assert self.traces.wait_idle(WAIT_S)

    def calls(self) -> list[tuple[object, ...]]:
        """Return the calls by time, each with its result."""
        return rows(self.store, CALLS)

    def kept(self) -> int:
        """Count the calls and results that are kept."""
        with self.store._database.cursor() as cursor:
            ((count,),) = cursor.execute("SELECT count(*) FROM tool_call").fetchall()
        return int(count)

    def delete(self, trace: int) -> None:
        """Delete a trace."""
        self.store.deletions.request(DeletionCriteria(trace_id=trace_id(trace)), now_us=RECEIVED_AT_US)
        while self.store.erasure.work():
            pass


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[Stored]:
    """Yield an empty store."""
    with a_store(tmp_path) as store, adding_up(store) as traces:
        yield Stored(store, traces)


def asking(identity: str, **arguments: str) -> Attributes:
    """Return a message of a model that calls a tool."""
    return dict(call("find", {**arguments}, identity))


def request(
    number: int, sent: Sequence[Attributes], answer: Attributes, *, at_s: float = 0, trace: int | None = None
) -> ExportTraceServiceRequest:
    """Return a request to a model that is a trace of its own."""
    export = ExportTraceServiceRequest()
    resource = export.resource_spans.add()
    resource.resource.attributes.add(key="service.name").value.string_value = "shop"
    start_ns = START_NS + round((at_s or number) * SECOND_NS)
    span = resource.scope_spans.add().spans.add(
        trace_id=bytes.fromhex(trace_id(number if trace is None else trace)),
        span_id=bytes.fromhex(span_id(number)),
        name="chat",
        start_time_unix_nano=start_ns,
        end_time_unix_nano=start_ns + SECOND_NS // 2,
    )
    attributes = {"gen_ai.input.messages": [USER, *sent], "gen_ai.output.messages": [answer]}
    for key, value in {
        "gen_ai.operation.name": "chat",
        **{key: json.dumps(each) for key, each in attributes.items()},
    }.items():
        span.attributes.add(key=key).value.string_value = value
    return export


def failing(message: str, identity: str) -> Attributes:
    """Return the result of a call that failed."""
    part = {"type": "tool_call_response", "id": identity, "response": message, "is_error": True}
    return {"role": "tool", "parts": [part]}


ONE, TWO, FINAL = asking("c1", item="hose"), asking("c2", item="can"), text("assistant", "All there.")
TALK = [
    request(1, [], ONE),
    request(2, [ONE, response("twelve", "c1")], TWO),
    request(3, [ONE, response("twelve", "c1"), TWO, failing("lost", "c2")], FINAL),
]
WHOLE = [("c1", "twelve", False, None), ("c2", "lost", True, "lost")]


@pytest.mark.costly("collector/conventions", "storage")
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_a_call_has_the_result_that_a_later_trace_was_sent(stored: Stored, order: Sequence[int]) -> None:
    """A call counts once, with result and failure, in whatever order its trace and those after it come."""
    for number in order:
        stored.take(TALK[number])
    assert stored.calls() == WHOLE
    assert rows(stored.store, "SELECT sum(tool_call_count) FROM traces") == [(2,)]
    assert stored.kept() == 4  # each result once more, however often it is sent


def test_traces_that_come_together_are_completed(stored: Stored) -> None:
    """So are calls and results of one commit, and those that come a second time."""
    stored.take(*TALK)
    stored.take(*TALK[::-1])
    assert stored.calls() == WHOLE


def test_a_trace_that_is_added_up_again_keeps_what_its_calls_have(stored: Stored) -> None:
    """The call's trace and the result's may grow after the result came."""
    stored.take(*TALK)
    for trace in (1, 2, 3):
        stored.take(request(10 + trace, [], text("assistant", "Hello."), at_s=20, trace=trace))
    assert stored.calls() == WHOLE


@pytest.mark.costly("collector/conventions", "storage")
def test_a_result_leaves_with_the_trace_that_was_sent_it(stored: Stored) -> None:
    """A result in a deleted trace is kept nowhere, and calls of deleted traces do not count."""
    stored.take(*TALK)
    stored.delete(3)
    assert stored.calls() == [WHOLE[0], ("c2", None, False, None)]
    stored.delete(2)
    assert stored.calls() == [("c1", None, False, None)]
    stored.delete(1)
    assert stored.kept() == 0


def test_tenants_and_other_calls_stay_apart(stored: Stored) -> None:
    """A result is for the call with its id, name and arguments, of its tenant, within an hour."""
    stored.take(TALK[0])
    sent = [ONE, response("twelve", "c1")]
    other = [asking("c1", item="rake"), response("none", "c1")]
    stored.take(request(4, other, FINAL), request(5, sent, FINAL, at_s=2 * HOUR_S))
    stored.take(request(6, sent, FINAL), tenant="other")
    assert stored.calls() == [("c1", None, False, None)]
    stored.take(request(7, sent, FINAL, at_s=HOUR_S - 1))
    assert stored.calls() == [("c1", "twelve", False, None)]


@pytest.mark.costly("collector/conventions", "storage")
@pytest.mark.parametrize("at_ns", [2, LAST_NS - HOUR_S * SECOND_NS, LAST_NS])
def test_a_call_at_either_end_of_time_has_its_result(stored: Stored, at_ns: int) -> None:
    """Traces are summed although no instant is an hour before or after a call."""
    calls, results = request(1, [], ONE), request(2, [ONE, response("twelve", "c1")], FINAL)
    for each in (calls, results):
        (span,) = each.resource_spans[0].scope_spans[0].spans
        span.start_time_unix_nano, span.end_time_unix_nano = at_ns - 1, at_ns
    stored.take(calls)
    stored.take(results)
    assert stored.calls() == [WHOLE[0]]
    stored.delete(2)
    assert stored.calls() == [("c1", None, False, None)]


def test_a_trace_that_cannot_be_added_up_stops_no_other(stored: Stored) -> None:
    """It is set aside until it can be, and has a row meanwhile; a server says so, and tries again after a start."""
    stored.store._writer.store(lambda db: db.execute("ALTER TABLE tool_call ALTER call_id TYPE INTEGER"), 0)
    stored.take(*(request(number, [], asking("x" if number == 4 else f"{number}")) for number in range(1, 9)))
    assert [call_id for call_id, *_ in stored.calls()] == [1, 2, 3, 5, 6, 7, 8]
    sums = "SELECT count(*), count(input), sum(tool_call_count) FROM traces"
    assert rows(stored.store, sums) == [(8, 7, 7)]
    assert stored.traces.set_aside == {("", trace_id(4)): "ConversionException"}
    stored.traces.close()
    with adding_up(stored.store) as traces:
        assert traces.wait_idle(WAIT_S)
        assert list(traces.set_aside) == [("", trace_id(4))]
        stored.store._writer.store(lambda db: db.execute("ALTER TABLE tool_call ALTER call_id TYPE VARCHAR"), 0)
        commit(stored.store, a_batch(request(10, [], text("assistant", "Hello."), trace=4)))
        assert traces.wait_idle(WAIT_S)
        assert not traces.set_aside
    assert rows(stored.store, sums) == [(8, 8, 8)]


def request_with_result(number: int, result: str) -> ExportTraceServiceRequest:
    """Return a request that is sent the result of a call."""
    return request(number, [ONE, response(result, "c1")], FINAL)


def of(export: ExportTraceServiceRequest, **values: str) -> ExportTraceServiceRequest:
    """Return the request as one of a session, a user, a service or a project."""
    keys = {"session": "session.id", "user": "user.id"}
    own = {"service": "service.name", "project": "openinference.project.name"}
    for name, value in values.items():
        target = export.resource_spans[0].resource if name in own else export.resource_spans[0].scope_spans[0].spans[0]
        key = own.get(name) or keys[name]
        same = [each for each in target.attributes if each.key == key] or [target.attributes.add(key=key)]
        same[0].value.string_value = value
    return export


@pytest.mark.parametrize("name", ["session", "user", "service", "project"])
def test_nothing_joins_traces_of_different_names(stored: Stored, name: str) -> None:
    """A result is for no call of another session, user, service or project; one may leave out session or user."""
    stored.take(of(request(1, [], ONE), **{name: "a"}), of(request_with_result(2, "of b"), **{name: "b"}))
    assert [result for _, result, *_ in stored.calls()] == [None]
    if name in {"session", "user"}:
        stored.take(request(11, [], TWO), of(request(12, [TWO, response("of b", "c2")], FINAL), **{name: "b"}))
        assert [result for _, result, *_ in stored.calls()] == [None, "of b"]


@pytest.mark.costly("collector/conventions", "storage")
@pytest.mark.parametrize("order", list(itertools.permutations(range(4)))[::5])
def test_sessions_at_once_each_have_their_own_result(stored: Stored, order: Sequence[int]) -> None:
    """Equal calls of different sessions stay distinct, unless a trace without a session is sent a result, too."""
    made = [request(1, [], ONE), request(2, [], ONE), request_with_result(3, "a"), request_with_result(4, "b")]
    named = [of(export, session=f"s{at % 2}") for at, export in enumerate(made)]
    for at in order:
        stored.take(named[at])
    assert [result for _, result, *_ in stored.calls()] == ["a", "b"]
    stored.take(request_with_result(5, "c"))
    assert [result for _, result, *_ in stored.calls()] == [None, None]
    stored.delete(5)
    assert [result for _, result, *_ in stored.calls()] == ["a", "b"]


@pytest.mark.parametrize("order", [range(5), range(4, -1, -1)])
def test_a_call_beside_one_that_may_wait_has_no_result(stored: Stored, order: Sequence[int]) -> None:
    """Of two calls and one result one still waits, so that the third call has none, until an hour is over."""
    made = [
        request(1, [], ONE),
        request(2, [], ONE),
        request_with_result(3, "a"),
        request(4, [], ONE),
        request_with_result(5, "b"),
    ]
    for at in order:
        stored.take(made[at])
    assert [result for _, result, *_ in stored.calls()] == [None, None, None]
    later = HOUR_S + 10
    sent = [ONE, response("c", "c1")]
    stored.take(request(6, [], ONE, at_s=later), request(7, sent, FINAL, at_s=later + 1))
    assert [result for _, result, *_ in stored.calls()] == [None, None, None, "c"]


def test_a_result_that_is_sent_again_serves_no_second_call(stored: Stored) -> None:
    """A retry, or a model that is sent the same messages, repeats a result: the next call waits for its own."""
    stored.take(request(1, [], ONE), request_with_result(2, "a"), request(3, [], ONE), request_with_result(4, "a"))
    assert [result for _, result, *_ in stored.calls()] == ["a", None]
    stored.take(request_with_result(5, "b"))
    assert [result for _, result, *_ in stored.calls()] == ["a", "b"]


def test_calls_that_nothing_tells_apart_have_no_result(stored: Stored) -> None:
    """Ids may begin anew with each conversation: equal calls that are open at once have none, others theirs."""
    stored.take(request(1, [], ONE), request(2, [], ONE), request_with_result(3, "a"), request_with_result(4, "b"))
    assert [result for _, result, *_ in stored.calls()] == [None, None]
    stored.take(request(5, [], ONE), request_with_result(6, "c"), request(7, [], ONE), request_with_result(8, "d"))
    assert [result for _, result, *_ in stored.calls()] == [None, None, "c", "d"]


def test_more_equal_calls_than_are_compared_have_no_result(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a commit costs does not grow with the calls of one key; results are back once there are fewer."""
    monkeypatch.setattr(open_calls, "EQUAL_CALLS", 3)
    stored.take(request(1, [], ONE), request_with_result(2, "a"), request(3, [], ONE))
    assert [result for _, result, *_ in stored.calls()] == ["a", None]
    stored.take(request_with_result(4, "b"))
    assert [result for _, result, *_ in stored.calls()] == [None, None]
    stored.delete(4)
    assert [result for _, result, *_ in stored.calls()] == ["a", None]
