"""Readings are stored with their spans; traces are summed as they grow, and no failure stops either."""

import io
import json
import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.conventions.columnar import reader as columnar
from collector.conventions.columnar.traces import meanings
from collector.conventions.own_keys import NO_KEYS
from collector.otlp.decode import Request, decode
from collector.otlp.signals import LOGS
from collector.reading import spans as reading_spans
from collector.reading import traces as reading_traces
from collector.reading.spans import ConventionsReader, ReadingCounts
from collector.reading.updater import TraceUpdater
from storage import sql
from storage.engine.database import DatabaseOptions
from storage.ingest import span_rows
from storage.ingest.batch import SpanBatch
from storage.ingest.trace_meanings import TraceChange, TraceSums
from storage.ingest.windows import Limits, TraceKey
from storage.ingest.writer import WriterOptions
from storage.records import LogRecord, Span
from storage.store import Store, StoreOptions
from storage.wire import Header, receive, send
from tests.live import Live, a_live_server
from tests.matching import adding_up
from tests.serving import run
from tests.storing import RECEIVED_AT_US, START_NS, WAIT_S, a_batch, a_store, an_export, commit, rows, span_id, trace_id
from tests.traffic import Load

pytestmark = pytest.mark.costly(
    "collector/api",
    "collector/cli",
    "collector/conventions",
    "collector/listeners",
    "collector/live",
    "collector/otlp",
    "collector/reading",
    "storage",
)

EVERY_SPAN = "SELECT count(*), count(span_type), count(DISTINCT (trace_id, span_id)) FROM spans"
EVERY_TRACE = "SELECT count(*), count(tool_call_count) FROM traces"


class Edition(ConventionsReader):
    """A reader like the product's, under a name of its own."""

    def __init__(self, name: str) -> None:
        super().__init__(NO_KEYS)
        self.edition = name


def a_talk(*, trace: int = 0, first: int = 0, start_ns: int = START_NS) -> ExportTraceServiceRequest:
    """Build a model's span that asks for a tool, and the tool's span, of one trace."""
    request = an_export(2, trace=trace, first=first, start_ns=start_ns)
    model, tool = request.resource_spans[0].scope_spans[0].spans
    messages = '[{"role": "user", "parts": [{"type": "text", "content": "Weather?"}]}]'
    calls = '[{"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "w", "arguments": {"a": 1}}]}]'
    for span, attributes in (
        (model, {"gen_ai.operation.name": "chat", "gen_ai.input.messages": messages, "gen_ai.output.messages": calls}),
        (tool, {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "w", "gen_ai.tool.call.id": "c1"}),
    ):
        for key, text in attributes.items():
            span.attributes.add(key=key).value.string_value = text
    model.attributes.add(key="gen_ai.usage.input_tokens").value.int_value = 7
    tool.parent_span_id = model.span_id
    return request


def test_a_row_is_complete_at_its_commit(tmp_path: Path) -> None:
    """A query within the commit that stores a span finds its reading."""
    reads: list[list[tuple[object, ...]]] = []
    with a_store(tmp_path) as store:
        writer = store._writer

        def look(_traces: object, batch: int) -> None:
            statement = (
                f"SELECT span_type, input, input_tokens, tool_name FROM spans WHERE seq >> 20 = {batch} ORDER BY seq"
            )
            reads.append(rows(store, statement))

        writer._committed = look
        commit(store, a_batch(a_talk()))
        assert reads == [[("llm", "Weather?", 7, None), ("tool", None, None, "w")]]


def test_traces_are_added_up(tmp_path: Path) -> None:
    """What a trace means, and its calls of tools, follow soon after its commit."""
    with a_store(tmp_path) as store, adding_up(store) as traces:
        commit(store, a_batch(a_talk()))
        assert traces.wait_idle(WAIT_S)
        assert rows(store, "SELECT input_tokens, tool_call_count FROM traces") == [(7, 1)]
        assert rows(store, "SELECT span_id, ordinal, call_id, name, is_error FROM tool_calls") == [
            (span_id(1), 0, "c1", "w", False)
        ]


def test_a_trace_that_comes_in_parts_is_added_up_as_one(tmp_path: Path) -> None:
    """Parts of a trace in different commits make one row, one tool call, one sum."""
    with a_store(tmp_path) as store, adding_up(store) as traces:
        for part in range(4):
            commit(store, a_batch(a_talk(first=2 * part, start_ns=START_NS + part * 10**9)))
            assert traces.wait_idle(WAIT_S)
        assert rows(store, EVERY_SPAN) == [(8, 8, 8)]
        assert rows(store, "SELECT input_tokens, span_count FROM traces") == [(28, 8)]
        assert rows(store, "SELECT count(*), sum(span_count) FROM trace_reading") == [(1, 8)]


def test_parts_in_any_order_of_tenants_stay_apart(tmp_path: Path) -> None:
    """The same trace id in two tenants is two traces, each with its own sum."""
    with a_store(tmp_path) as store, adding_up(store) as traces:
        commit(store, a_batch(a_talk(), tenant="a"))
        commit(store, a_batch(a_talk(), tenant="b"), a_batch(a_talk(first=2), tenant="b"))
        assert traces.wait_idle(WAIT_S)
        assert rows(store, "SELECT tenant, input_tokens FROM traces ORDER BY tenant") == [("a", 7), ("b", 14)]


def test_adding_up_goes_on_where_it_stopped(tmp_path: Path) -> None:
    """Traces committed while the updater is down are summed at the next start, and no earlier ones again."""
    with a_store(tmp_path) as store:
        commit(store, a_batch(an_export(5)))
        with adding_up(store) as traces:
            assert traces.wait_idle(WAIT_S)
        commit(store, a_batch(an_export(5, first=5), an_export(5, trace=1, first=10)))
    with a_store(tmp_path) as store:
        assert set(store.trace_meanings.changed()[0]) == {TraceKey("", trace_id(0)), TraceKey("", trace_id(1))}
        with adding_up(store) as traces:
            assert traces.wait_idle(WAIT_S)
        assert rows(store, EVERY_SPAN) == [(15, 15, 15)]
        assert rows(store, EVERY_TRACE) == [(2, 2)]
        assert store.trace_meanings.changed() == ({}, 2)


def test_more_changes_than_are_remembered_are_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If commits change more traces between two polls than are remembered, all of them are still summed."""
    monkeypatch.setattr("storage.ingest.trace_meanings._MOST_CHANGES", 3)
    with a_store(tmp_path) as store:
        store.trace_meanings.changes.take()
        commit(store, a_batch(*(an_export(1, trace=number, first=number) for number in range(9))))
        commit(store, a_batch(an_export(1, trace=9, first=9)))
        with adding_up(store) as traces:
            assert traces.wait_idle(WAIT_S)
        assert rows(store, EVERY_TRACE) == [(10, 10)]


def test_a_new_edition_reads_everything_again(tmp_path: Path) -> None:
    """Spans read by an older edition of the conventions are read again, each in its place, and their traces summed."""
    with a_store(tmp_path) as store, adding_up(store) as traces:
        commit(store, a_batch(a_talk(), a_talk(trace=1, first=2)), a_batch(a_talk(first=4)))
        assert traces.wait_idle(WAIT_S)
        numbers = rows(store, "SELECT span_id, seq FROM spans ORDER BY seq")
        store._writer.store(lambda cursor: cursor.execute("UPDATE span SET span_type = 'stale', input_tokens = 1"), 1)
        store._writer.store(lambda cursor: cursor.execute("UPDATE trace_reading SET input_tokens = 1"), 1)
    options = StoreOptions(writer=WriterOptions(commit_interval_s=0.001, reads=Edition("2")))
    with Store.open(tmp_path, options) as store:
        assert store.status.status(0).older_spans == 6
        with adding_up(store, reads=Edition("2")) as traces:
            commit(store, a_batch(a_talk(trace=2, first=6)))
            assert traces.wait_idle(WAIT_S)
        assert store.status.status(0).older_spans == 0
        assert rows(store, "SELECT span_type, count(*), sum(input_tokens) FROM spans GROUP BY ALL ORDER BY ALL") == [
            ("llm", 4, 28),
            ("tool", 4, None),
        ]
        assert rows(store, "SELECT input_tokens FROM traces ORDER BY trace_id") == [(14,), (7,), (7,)]
        assert rows(store, "SELECT span_id, seq FROM spans WHERE seq >> 20 < 3 ORDER BY seq")[:6] == numbers
        assert rows(store, "SELECT count(DISTINCT edition) FROM trace_reading") == [(1,)]


def test_log_records_that_come_later_complete_their_span(tmp_path: Path) -> None:
    """A span has one row with one number, and what its log records say, whenever these come."""
    with a_store(tmp_path) as store, adding_up(store) as traces:
        commit(store, a_batch(an_export(2)))
        (before,) = rows(store, f"SELECT seq, output_messages FROM spans WHERE span_id = '{span_id(1)}'")
        commit(store, some_logs(1, of=1, says="It rains."))
        (after,) = rows(store, f"SELECT seq, output_messages FROM spans WHERE span_id = '{span_id(1)}'")
        assert after[0] == before[0]
        assert "It rains." in str(after[1])
        assert "It rains." not in str(before[1])
        assert traces.wait_idle(WAIT_S)
        assert rows(store, EVERY_SPAN) == [(2, 2, 2)]


def test_log_records_that_come_first_are_found(tmp_path: Path) -> None:
    """Also after a restart, a span is stored with what log records said before it came."""
    with a_store(tmp_path) as store:
        commit(store, some_logs(1, of=1, says="It rains."))
    with a_store(tmp_path) as store:
        commit(store, a_batch(an_export(2)))
        ((messages,),) = rows(store, f"SELECT output_messages FROM spans WHERE span_id = '{span_id(1)}'")
        assert "It rains." in str(messages)


@pytest.mark.costly("collector/reading", "storage")
@pytest.mark.parametrize("restarts", [False, True])
def test_log_records_of_old_commits_are_not_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, restarts: bool
) -> None:
    """A span is read by those log records alone that are of the latest commits, as many as are remembered."""
    monkeypatch.setattr(span_rows, "_KNOWN_LOGS", 16)
    with ExitStack() as stack:
        store = stack.enter_context(a_store(tmp_path))
        commit(store, some_logs(1, of=1, says="It rains."))
        for number in range(2, 50):
            commit(store, some_logs(1, of=number, says="It hails."))
        commit(store, some_logs(1, of=1, says="It snows."))
        if restarts:
            stack.close()
            store = stack.enter_context(a_store(tmp_path))
        commit(store, a_batch(an_export(2)))
        ((messages,),) = rows(store, f"SELECT output_messages FROM spans WHERE span_id = '{span_id(1)}'")
    assert "It snows." in str(messages)
    assert "It rains." not in str(messages)


def test_log_records_from_before_and_with_their_span_are_each_read_once(tmp_path: Path) -> None:
    """A record that comes in the commit of its span is not found a second time among those that are stored."""
    spans, logs = a_batch(an_export(2)), some_logs(1, of=1, says="It snows.")
    both = SpanBatch(
        spans=spans.spans,
        resources=pa.concat_tables([spans.resources, logs.resources]),
        scopes=pa.concat_tables([spans.scopes, logs.scopes]),
        logs=logs.logs,
    )
    with a_store(tmp_path) as store:
        commit(store, some_logs(1, of=1, says="It rains."))
        commit(store, both)
        ((messages,),) = rows(store, f"SELECT output_messages FROM spans WHERE span_id = '{span_id(1)}'")
        assert (str(messages).count("It rains."), str(messages).count("It snows.")) == (1, 1)


def test_a_batch_that_cannot_be_read_at_once_is_read_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault in the reading of columns costs time and nothing else; it is counted."""

    def fail(_self: object, _spans: pa.Table) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(columnar.SpanReader, "read", fail)
    counts = ReadingCounts()
    writer = WriterOptions(commit_interval_s=0.001, reads=ConventionsReader(NO_KEYS, counts))
    with Store.open(tmp_path, StoreOptions(writer=writer)) as store:
        commit(store, a_batch(a_talk()))
        assert rows(store, "SELECT span_type, input_tokens FROM spans ORDER BY span_id") == [("llm", 7), ("tool", None)]
        assert counts.spans == {"log_records": 0, "failed": 2, "unreadable": 0}


def test_a_batch_that_cannot_be_split_is_counted_as_unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All its spans are stored with a note, and the count has each of them."""

    def fail(*_: object) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(columnar.SpanReader, "read", fail)
    monkeypatch.setattr(reading_spans, "spans_of", fail)
    counts = ReadingCounts()
    writer = WriterOptions(commit_interval_s=0.001, reads=ConventionsReader(NO_KEYS, counts))
    with Store.open(tmp_path, StoreOptions(writer=writer)) as store:
        commit(store, a_batch(a_talk()))
        assert rows(store, "SELECT DISTINCT notes FROM spans") == [
            ("this span could not be read: ZeroDivisionError: ",)
        ]
        assert counts.spans == {"log_records": 0, "failed": 2, "unreadable": 2}


def test_a_span_that_cannot_be_read_is_alone_in_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A span that breaks its reading is marked as unreadable; all others are read."""

    def fail(_self: object, _spans: pa.Table) -> Any:
        raise MemoryError

    read = columnar.row_of_span

    def poisoned(span: Span, logs: Sequence[LogRecord], own: Any) -> Any:
        if span.span_id == span_id(1):
            raise MemoryError
        return read(span, logs, own)

    monkeypatch.setattr(columnar.SpanReader, "read", fail)
    monkeypatch.setattr(reading_spans, "row_of_span", poisoned)
    with a_store(tmp_path) as store:
        commit(store, a_batch(a_talk()))
        assert rows(store, "SELECT span_type, notes FROM spans ORDER BY span_id") == [
            ("llm", None),
            ("other", "this span could not be read: MemoryError: "),
        ]


def test_a_trace_that_cannot_be_added_up_is_alone_in_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trace that makes the summing fail is listed without sums; all other traces are summed."""

    def poisoned(spans: pa.Table) -> Any:
        if trace_id(1) in spans.column("trace_id").to_pylist():
            raise ZeroDivisionError
        return meanings(spans)

    monkeypatch.setattr(reading_traces, "meanings", poisoned)
    with a_store(tmp_path) as store, adding_up(store) as traces:
        commit(store, a_batch(a_talk(), a_talk(trace=1, first=2), a_talk(trace=2, first=4)))
        assert traces.wait_idle(WAIT_S)
        query = "SELECT input_tokens, tool_call_count FROM traces ORDER BY trace_id"
        assert rows(store, query) == [(7, 1), (None, 0), (7, 1)]


@pytest.mark.costly("collector/conventions", "collector/reading", "storage")
@pytest.mark.parametrize("limits", [Limits(rows=10, nbytes=1 << 30), Limits(rows=1000, nbytes=1)])
def test_traces_that_do_not_fit_together_are_each_added_up_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limits: Limits
) -> None:
    """However many traces are due at a start, none is summed from a part of its spans."""
    with a_store(tmp_path) as store:
        for part in range(2):
            talks = (a_talk(trace=number, first=4 * number + 2 * part) for number in range(40))
            commit(store, *(a_batch(talk) for talk in talks))
        monkeypatch.setattr("collector.reading.updater._TRACE_LIMITS", limits)
        with adding_up(store) as traces:
            assert traces.wait_idle(3 * WAIT_S)
        assert rows(store, "SELECT DISTINCT input_tokens, tool_call_count, span_count FROM traces") == [(14, 2, 4)]
        assert rows(store, "SELECT count(*) FROM trace_reading") == [(40,)]


def a_long_talk(calls: int) -> ExportTraceServiceRequest:
    """Build a root with its texts, and models' calls below it, each of which asks for a tool that fails."""
    request = an_export(2 * calls + 1)
    root, *others = request.resource_spans[0].scope_spans[0].spans
    root.attributes.add(key="input.value").value.string_value = "q"
    root.attributes.add(key="output.value").value.string_value = "a"
    for number, span in enumerate(others):
        span.parent_span_id = root.span_id
        asks = number % 2 == 0
        call_id = f"c{number // 2}"
        part = {"type": "tool_call", "id": call_id, "name": "pay", "arguments": {"n": number // 2}}
        attributes: dict[str, str | int] = (
            {
                "gen_ai.operation.name": "chat",
                "gen_ai.usage.input_tokens": 10,
                "gen_ai.input.messages": json.dumps(
                    [{"role": "user", "parts": [{"type": "text", "content": "x" * 99}]}]
                ),
                "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": [part]}]),
            }
            if asks
            else {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "pay", "gen_ai.tool.call.id": call_id}
        )
        for key, value in attributes.items():
            held = span.attributes.add(key=key).value
            if isinstance(value, int):
                held.int_value = value
            else:
                held.string_value = value
        if not asks:
            span.status.code = 2  # type: ignore[assignment] # numbers of an enumeration
    return request


def test_a_trace_that_does_not_fit_is_added_up_over_all_of_its_spans(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tokens, its calls of tools and its failures are complete, and so are its texts."""
    sums = "SELECT span_count, summed_span_count, input_tokens, tool_call_count, input, output FROM traces"
    calls = "SELECT count(*), count(DISTINCT call_id), count(DISTINCT arguments), count_if(is_error) FROM tool_calls"
    monkeypatch.setattr("collector.reading.updater._TRACE_LIMITS", Limits(rows=1000, nbytes=1 << 30))
    with a_store(tmp_path) as store, adding_up(store) as traces:
        commit(store, a_batch(a_long_talk(1200)))
        assert traces.wait_idle(WAIT_S)
        assert rows(store, sums) == [(2401, 2401, 12_000, 1200, "q", "a")]
        assert rows(store, calls) == [(1200, 1200, 1200, 1200)]


def test_sums_of_a_part_of_a_trace_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a trace that is too long even without its texts, the view reports how many spans its sums cover."""
    for name in ("_TRACE_LIMITS", "_LONG_TRACE_LIMITS"):
        monkeypatch.setattr(f"collector.reading.updater.{name}", Limits(rows=100, nbytes=1 << 30))
    with a_store(tmp_path) as store, adding_up(store) as traces:
        commit(store, a_batch(a_long_talk(100)))
        assert traces.wait_idle(WAIT_S)
        assert rows(store, "SELECT span_count, summed_span_count FROM traces") == [(201, 100)]


def test_the_sum_of_a_part_of_a_chain_counts_no_span_beside_its_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a chain of model spans comes leaf first, the summed part is connected: its root counts once."""
    for name in ("_TRACE_LIMITS", "_LONG_TRACE_LIMITS"):
        monkeypatch.setattr(f"collector.reading.updater.{name}", Limits(rows=20, nbytes=1 << 30))
    chain = an_export(60)
    spans = chain.resource_spans[0].scope_spans[0].spans
    for place, span in enumerate(spans):
        span.parent_span_id = bytes.fromhex(span_id(place - 1)) if place else b""
        span.attributes.add(key="gen_ai.operation.name").value.string_value = "chat"
        span.attributes.add(key="gen_ai.usage.input_tokens").value.int_value = 1
    ordered = [spans[place] for place in (*range(59, 0, -2), *range(0, 60, 2))]
    copies = [type(one).FromString(one.SerializeToString()) for one in ordered]
    del spans[:]
    spans.extend(copies)
    with a_store(tmp_path) as store, adding_up(store) as traces:
        commit(store, a_batch(chain))
        assert traces.wait_idle(WAIT_S)
        assert rows(store, "SELECT summed_span_count, input_tokens FROM traces") == [(20, 1)]


def test_a_long_trace_is_added_up_again_as_rarely_as_it_is_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One more span of an over-long trace is not summed at once, since all spans of the trace are read for it."""
    monkeypatch.setattr("collector.reading.updater._TRACE_LIMITS", Limits(rows=5, nbytes=1 << 30))
    long, short = TraceKey("", trace_id(0)), TraceKey("", trace_id(1))
    with a_store(tmp_path) as store:
        commit(store, a_batch(an_export(1000)))
        traces = TraceUpdater(store.trace_meanings, ConventionsReader(NO_KEYS), ingest_is_behind=lambda: False)
        traces._add_up([long])
        traces._put_off({key: TraceChange(2, 1) for key in (long, short)})
        assert traces._due[long].at_s - traces._due[short].at_s >= 1


@pytest.mark.parametrize("threads", [1, 4])
def test_traces_are_taken_out_bounded_by_bytes(tmp_path: Path, threads: int) -> None:
    """Traces beyond the byte limit are returned with some of their spans and a mark that there are more."""
    options = StoreOptions(database=DatabaseOptions(threads=threads), writer=WriterOptions(commit_interval_s=0.001))
    with Store.open(tmp_path, options) as store:
        commit(store, *(a_batch(an_export(1500, trace=trace, first=1500 * trace)) for trace in range(8)))
        keys = [TraceKey("", trace_id(number)) for number in range(8)]
        cut = store.windows.traces(keys, limits=Limits(rows=50_000, nbytes=1 << 10))
        assert cut is not None
        assert (0 < cut.spans.num_rows <= 2048, cut.is_cut) == (True, True)
        whole = store.windows.traces(keys, limits=Limits(rows=50_000, nbytes=1 << 30))
        assert whole is not None
        assert (whole.spans.num_rows, whole.is_cut) == (12_000, False)


def some_logs(count: int, *, of: int = 0, says: str = "") -> SpanBatch:
    """Log records of a span of the first trace."""
    request = ExportLogsServiceRequest()
    records = request.resource_logs.add().scope_logs.add().log_records
    for number in range(count):
        record = records.add(
            trace_id=bytes.fromhex(trace_id(0)),
            span_id=bytes.fromhex(span_id(of)),
            time_unix_nano=START_NS + number,
            event_name="gen_ai.choice",
        )
        message = record.body.kvlist_value.values.add(key="message").value.kvlist_value
        message.values.add(key="content").value.string_value = says
    return decode([Request(body=request.SerializeToString(), signal=LOGS)], received_at_us=RECEIVED_AT_US).batch


def test_an_unknown_trace_changes_in_vain(tmp_path: Path) -> None:
    """A trace that changed but is not stored, such as one that was deleted, leaves no sums."""
    with a_store(tmp_path) as store:
        commit(store, a_batch(a_talk()))
        with adding_up(store) as traces:
            assert traces.wait_idle(WAIT_S)
            store._writer.store(lambda cursor: cursor.execute("DELETE FROM span"), 1)
            store._writer.store(lambda cursor: cursor.execute("DELETE FROM trace_part"), 1)
            store.trace_meanings.changes.note({TraceKey("", trace_id(7)): 1, TraceKey("", trace_id(0)): 1}, 1)
            assert traces.wait_idle(WAIT_S)
        assert rows(store, "SELECT count(*) FROM trace_reading UNION ALL SELECT count(*) FROM tool_calls") == [
            (0,),
            (0,),
        ]


def test_adding_up_waits_for_ingest_only_so_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While ingest is behind, summing is deferred, but only for a bounded time."""
    monkeypatch.setattr("collector.follower.LONGEST_YIELD_S", 0.2)
    with a_store(tmp_path) as store:
        traces = TraceUpdater(store.trace_meanings, ConventionsReader(NO_KEYS), ingest_is_behind=lambda: True)
        traces.start()
        try:
            commit(store, a_batch(an_export(5)))
            assert traces.wait_idle(WAIT_S)
            assert rows(store, EVERY_TRACE) == [(1, 1)]
        finally:
            traces.close()


def test_traces_of_a_commit_are_added_up_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Although a long one would be due later than a short one, they take one step, and not one each."""
    steps: list[int] = []
    with a_store(tmp_path) as store, adding_up(store) as traces:
        assert traces.wait_idle(WAIT_S)
        stored = store.trace_meanings.store

        def store_counted(sums: TraceSums) -> None:
            steps.append(sums.traces.num_rows)
            stored(sums)

        monkeypatch.setattr(store.trace_meanings, "store", store_counted)
        commit(store, a_batch(an_export(1), an_export(60, trace=1, first=1)))
        assert traces.wait_idle(WAIT_S)
    assert steps == [2]


def test_reading_again_rests_and_adding_up_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two steps of reading again the spans of another edition, traces that grow are still summed."""
    monkeypatch.setattr("collector.reading.updater._LIMITS", Limits(rows=2, nbytes=1 << 20))
    with a_store(tmp_path) as store:
        commit(store, a_batch(an_export(2), an_export(4, trace=1, first=2)))
    options = StoreOptions(writer=WriterOptions(commit_interval_s=0.001, reads=Edition("2")))
    with Store.open(tmp_path, options) as store:
        traces = TraceUpdater(store.trace_meanings, Edition("2"), ingest_is_behind=lambda: False, rest=1e6)
        traces.start()
        try:
            until(lambda: store.status.status(0).older_spans == 4)
            commit(store, a_batch(an_export(3, trace=2, first=6)))
            until(lambda: (1, 3) in rows(store, "SELECT count(*), span_count FROM trace_reading GROUP BY ALL"))
            assert store.status.status(0).older_spans == 4
        finally:
            traces.close()


HOSTILE = [
    '[{"role": "user", "parts": [{"type": "text", "content": "half of a pair: \\ud83d, and the rest of it"}]}]',
    '[{"role": "user", "parts": [{"type": "text", "content": "a nul \\u0000 in the middle of the text"}]}]',
    '[{"role": "user", "parts": [{"type": "x", "n": [NaN, Infinity, -Infinity, 1e999, 123456789012345678901]}]}]',
    "[" * 100_000,
    '[{"role": "user", "parts": [{"type": "text", "content": "cut off in the mid',
    "{'city': 'Oslo', 'nested': {'a': [1, 2, (3,)]}, 'b': b'bytes'}",
    "\x00\ufffe not JSON at all \U0001f642",
    '{"a": 1, "a": 2}',
    "",
]


@pytest.mark.costly("collector/conventions", "collector/reading", "storage")
@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_no_content_breaks_a_query(tmp_path: Path, text: str) -> None:
    """Whatever a sender writes, every column of every view can be selected, and its JSON is JSON for DuckDB."""
    keys = ("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.tool.call.arguments", "gen_ai.tool.call.result")
    request = a_talk()
    for span in request.resource_spans[0].scope_spans[0].spans:
        for key in keys:
            span.attributes.add(key=key).value.string_value = text
    with a_store(tmp_path) as store, adding_up(store) as traces:
        commit(store, a_batch(request))
        assert traces.wait_idle(WAIT_S)
        for view in ("spans", "traces", "tool_calls"):
            assert rows(store, f"FROM {view}")
        columns = ("input_messages", "output_messages", "tool_arguments", "tool_definitions")
        valid = " AND ".join(f"coalesce(json_valid({name}), true)" for name in columns)
        assert rows(store, f"SELECT count(*) FROM spans WHERE NOT ({valid})") == [(0,)]
        assert rows(store, "SELECT count(*) FROM tool_calls WHERE NOT coalesce(json_valid(arguments), true)") == [(0,)]
        assert rows(store, "SELECT count(*) FROM spans WHERE notes LIKE 'this span could not be read%'") == [(0,)]


@pytest.mark.timeout(600)
@pytest.mark.kill("collector/conventions", "collector/reading", "storage/ingest", "storage/query")
def test_kills_leave_one_row_a_span_and_one_sum_a_trace(tmp_path: Path, seed: int, kills: int) -> None:
    """After kill -9 at random moments under load, every span means something, and every trace has one sum."""
    source = random.Random(seed)
    for _ in range(kills):
        with a_live_server(tmp_path / "data") as server, Load(server, seed, spans=20) as load:
            time.sleep(source.uniform(0.5, 2.0))
            server.kill()
            load.stop()
    with a_live_server(tmp_path / "data") as server:
        until(lambda: all_added_up(server))
        assert server.sql("SELECT count(*) - count(DISTINCT seq) FROM span") == [[0]]
        assert server.sql("SELECT count(*) - count(DISTINCT (tenant, trace_id)) FROM trace_reading") == [[0]]
        rolled = f"WITH changed_part AS (FROM trace_part), rolled AS ({sql.select_of('trace_roll_up')})"
        wrong = f"{rolled} SELECT count(*) FROM trace_reading AS r JOIN rolled AS t USING (tenant, trace_id)"
        differs = (
            "(r.span_count, r.stored_span_count, r.end_time) IS DISTINCT FROM (t.span_count, t.span_count, t.end_time)"
        )
        assert server.sql(f"{wrong} WHERE {differs}") == [[0]]


def all_added_up(server: Live) -> bool:
    """Return whether every span is read and every trace is summed."""
    ((spans, read, _),) = server.sql(EVERY_SPAN)
    ((traces, added_up),) = server.sql(EVERY_TRACE)
    behind = "SELECT (SELECT batch FROM trace_state) = (SELECT batch FROM ingest_state)"
    return bool(spans) and spans == read and traces == added_up and server.sql(behind) == [[True]]


def until(happens: Callable[[], bool], seconds: float = 60) -> None:
    """Wait until something is so."""
    deadline_s = time.monotonic() + seconds
    while not happens():
        assert time.monotonic() < deadline_s
        time.sleep(0.1)


def test_messages_cross_the_pipe_unchanged() -> None:
    """A header and tables are read back as they were sent, and the end of the stream differs from a truncation."""
    pipe = io.BytesIO()
    tables = [pa.table({"a": [1, 2]}), pa.table({"b": pa.array([], pa.string())})]
    send(pipe, {"x": [1]}, tables)
    send(pipe, {}, [])
    sent = pipe.getvalue()
    again = io.BytesIO(sent)
    assert receive(again) == ({"x": [1]}, tables)
    assert receive(again) == ({}, [])
    assert receive(again) is None
    first = len(sent) - len(_bytes_of({}, []))
    for cut in range(1, first, 7):
        with pytest.raises(EOFError):
            receive(io.BytesIO(sent[:cut]))


def _bytes_of(header: Header, tables: list[pa.Table]) -> bytes:
    pipe = io.BytesIO()
    send(pipe, header, tables)
    return pipe.getvalue()


def test_a_command_reads_again_what_an_older_version_read(tmp_path: Path) -> None:
    """Over a data directory, and from a running server, which does it by itself."""
    options = StoreOptions(writer=WriterOptions(commit_interval_s=0.001, reads=Edition("older")))
    with Store.open(tmp_path, options) as store:
        commit(store, a_batch(a_talk()))
        store._writer.store(lambda cursor: cursor.execute("UPDATE span SET span_type = 'stale'"), 1)
    result = run("reread", "--data", tmp_path)
    assert (result.exit_code, "all spans are read" in result.output) == (0, True), result.output
    with a_store(tmp_path) as store:
        assert rows(store, "SELECT span_type FROM spans ORDER BY seq") == [("llm",), ("tool",)]
        store._writer.store(lambda cursor: cursor.execute("UPDATE span SET span_type = 'stale', edition = NULL"), 1)
    with a_live_server(tmp_path) as server:
        result = run("reread", "--server", server.http)
        assert (result.exit_code, "all spans are read" in result.output) == (0, True), result.output
        assert server.sql("SELECT span_type FROM spans ORDER BY seq") == [["llm"], ["tool"]]


def test_who_waits_is_not_told_before_a_commit_was_noted(tmp_path: Path) -> None:
    """A commit can be read some moments before it is noted; a waiter then waits for its traces too."""
    with a_store(tmp_path) as store, adding_up(store) as traces:
        assert traces.wait_idle(WAIT_S)
        note, noted = store._writer._committed, threading.Event()

        def late(changed: Any, batch: int) -> None:
            assert noted.wait(WAIT_S)
            note(changed, batch)

        store._writer._committed = late
        store.append([a_batch(a_talk())])
        until(lambda: rows(store, "SELECT count(*) FROM spans") == [(2,)])
        assert not traces.wait_idle(0.3)
        noted.set()
        assert traces.wait_idle(WAIT_S)
        assert rows(store, "SELECT input_tokens FROM traces") == [(7,)]
