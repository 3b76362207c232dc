"""What spans mean follows their commit: each is read once, traces are added up, and nothing that fails stops it."""

import io
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.children.wire import Header, receive, send
from collector.conventions.own import OwnKeys
from collector.otlp.decode import Request, decode
from collector.otlp.signals import LOGS
from collector.reading.process import PROGRAM, TIMEOUT_S, ReadingProcess
from collector.reading.reader import Reader, _unfinished
from storage.batch import SpanBatch
from storage.database import DatabaseOptions
from storage.reading_batch import reading_batch
from storage.readings import EVERYTHING, Limits, Progress, TraceKey
from storage.store import Store, StoreOptions
from storage.writer import WriterOptions
from tests.live import Live, a_live_server
from tests.storing import RECEIVED_AT_US, START_NS, WAIT_S, a_batch, a_store, an_export, commit, rows, span_id, trace_id
from tests.traffic import Load

LARGE = Limits(rows=1000, nbytes=1 << 20)
EVERY_SPAN = "SELECT count(*), count(span_type), count(DISTINCT (trace_id, span_id)) FROM spans"
EVERY_TRACE = "SELECT count(*), count(tool_call_count) FROM traces"

POISON = """
import os, sys, time
from collector.reading import child
whole = child.read
def read(tables, *rest, **options):
    if "{name}" in tables[0].column("name").to_pylist():
        {deed}
    return whole(tables, *rest, **options)
child.read = read
child.main()
"""


@contextmanager
def reading(
    store: Store, *, program: str = PROGRAM, timeout_s: float = TIMEOUT_S, edition: str = "1"
) -> Iterator[Reader]:
    """A reader at work on the store."""
    process = ReadingProcess(OwnKeys({}), program=program, timeout_s=timeout_s)
    reader = Reader(store.readings, process, edition=edition, ingest_is_behind=lambda: False)
    reader.start()
    try:
        yield reader
    finally:
        reader.close()


def a_talk(*, trace: int = 0, first: int = 0, start_ns: int = START_NS) -> ExportTraceServiceRequest:
    """A model's span that asks for a tool, and the tool's span, of one trace."""
    request = an_export(2, trace=trace, first=first, start_ns=start_ns)
    model, tool = request.resource_spans[0].scope_spans[0].spans
    asked = '[{"role": "user", "parts": [{"type": "text", "content": "Weather?"}]}]'
    calls = '[{"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "w", "arguments": {"a": 1}}]}]'
    for span, attributes in (
        (model, {"gen_ai.operation.name": "chat", "gen_ai.input.messages": asked, "gen_ai.output.messages": calls}),
        (tool, {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "w", "gen_ai.tool.call.id": "c1"}),
    ):
        for key, text in attributes.items():
            span.attributes.add(key=key).value.string_value = text
    model.attributes.add(key="gen_ai.usage.input_tokens").value.int_value = 7
    tool.parent_span_id = model.span_id
    return request


def test_committed_spans_are_read(tmp_path: Path) -> None:
    """What a span means stands beside it soon after its commit, and its trace is added up."""
    with a_store(tmp_path) as store, reading(store) as reader:
        commit(store, a_batch(a_talk()))
        assert reader.wait_read(WAIT_S)
        spans = rows(store, "SELECT span_type, input, input_tokens, tool_name FROM spans ORDER BY span_id")
        assert spans == [("llm", "Weather?", 7, None), ("tool", None, None, "w")]
        assert rows(store, "SELECT input_tokens, tool_call_count FROM traces") == [(7, 1)]
        assert rows(store, "SELECT span_id, ordinal, call_id, name, is_error FROM tool_calls") == [
            (span_id(1), 0, "c1", "w", False)
        ]


def test_a_trace_that_comes_in_parts_is_added_up_as_one(tmp_path: Path) -> None:
    """Parts of a trace in different commits make one row, one tool call, one sum."""
    with a_store(tmp_path) as store, reading(store) as reader:
        for part in range(4):
            commit(store, a_batch(a_talk(first=2 * part, start_ns=START_NS + part * 10**9)))
            assert reader.wait_read(WAIT_S)
        assert rows(store, EVERY_SPAN) == [(8, 8, 8)]
        assert rows(store, "SELECT input_tokens, span_count FROM traces") == [(28, 8)]
        assert rows(store, "SELECT count(*) FROM trace_due") == [(0,)]


def test_parts_in_any_order_of_tenants_stay_apart(tmp_path: Path) -> None:
    """The same trace id in two tenants is two traces, each with its own sum."""
    with a_store(tmp_path) as store, reading(store) as reader:
        commit(store, a_batch(a_talk(), tenant="a"))
        commit(store, a_batch(a_talk(), tenant="b"), a_batch(a_talk(first=2), tenant="b"))
        assert reader.wait_read(WAIT_S)
        assert rows(store, "SELECT tenant, input_tokens FROM traces ORDER BY tenant") == [("a", 7), ("b", 14)]


def test_reading_goes_on_where_it_stopped(tmp_path: Path) -> None:
    """What is committed while nobody reads is read by the next start, and nothing twice."""
    with a_store(tmp_path) as store:
        commit(store, a_batch(an_export(5)))
        with reading(store) as reader:
            assert reader.wait_read(WAIT_S)
        commit(store, a_batch(an_export(5, first=5), an_export(5, trace=1, first=10)))
    with a_store(tmp_path) as store, reading(store) as reader:
        assert reader.wait_read(WAIT_S)
        assert rows(store, EVERY_SPAN) == [(15, 15, 15)]
        assert rows(store, EVERY_TRACE) == [(2, 2)]


def test_a_killed_process_is_started_again(tmp_path: Path) -> None:
    """Killing the reading process costs its window a second try, and nothing else."""
    with a_store(tmp_path) as store, reading(store) as reader:
        commit(store, a_batch(an_export(5)))
        assert reader.wait_read(WAIT_S)
        pid = reader._process.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        commit(store, a_batch(*(an_export(3, trace=trace, first=10 * trace) for trace in range(1, 9))))
        assert reader.wait_read(WAIT_S)
        assert rows(store, EVERY_SPAN) == [(29, 29, 29)]
        assert rows(store, "SELECT count(*) FROM spans WHERE notes IS NOT NULL") == [(0,)]


@pytest.mark.parametrize("deed", ["os._exit(7)", "time.sleep(3600)", "raise MemoryError"])
def test_a_trace_that_breaks_the_process_is_alone_in_that(tmp_path: Path, deed: str) -> None:
    """A trace that kills, hangs or exhausts the process is marked as unreadable; all others are read."""
    program = POISON.format(name="span 40", deed=deed)
    with a_store(tmp_path) as store:
        commit(store, a_batch(*(an_export(4, trace=trace, first=10 * trace) for trace in range(9))))
        with reading(store, program=program, timeout_s=2) as reader:
            assert reader.wait_read(3 * WAIT_S)
        assert rows(store, EVERY_SPAN) == [(36, 36, 36)]
        broken = rows(store, "SELECT DISTINCT trace_id FROM spans WHERE notes LIKE 'this span could not be read: %'")
        assert broken == [(trace_id(4),)]


def test_a_new_edition_reads_everything_again(tmp_path: Path) -> None:
    """Spans that an older edition of the conventions read are read again, while new ones are read first."""
    with a_store(tmp_path) as store:
        commit(store, a_batch(a_talk(), a_talk(trace=1, first=2)), a_batch(a_talk(first=4)))
        with reading(store, edition="1") as reader:
            assert reader.wait_read(WAIT_S)
        state = store.readings.state()
        window = store.readings.window(after=-1, until=EVERYTHING, limits=Limits(rows=100, nbytes=1 << 20))
        assert window is not None
        with closing(ReadingProcess(OwnKeys({}))) as process:
            stale = process.read(window, "all")
        columns = stale.readings.set_column(1, "span_type", pa.array(["stale"] * stale.readings.num_rows))
        done = Progress(batch=replace(stale, readings=columns), state=state, replaces=True, due=(), finished=())
        store.readings.store(done)
        assert rows(store, "SELECT DISTINCT span_type FROM spans") == [("stale",)]
        with reading(store, edition="2") as reader:
            assert reader.wait_read(WAIT_S)
        assert rows(store, "SELECT span_type, count(*) FROM spans GROUP BY ALL ORDER BY ALL") == [
            ("llm", 3),
            ("tool", 3),
        ]
        assert rows(store, "SELECT input_tokens FROM traces ORDER BY trace_id") == [(14,), (7,)]
        assert store.readings.state().edition == "2"


@pytest.mark.parametrize("threads", [1, 4])
def test_a_window_is_bounded_by_bytes(tmp_path: Path, threads: int) -> None:
    """Large spans are taken out in smaller numbers, in the order of their commits, none twice and none left out."""
    options = StoreOptions(database=DatabaseOptions(threads=threads), writer=WriterOptions(commit_interval_s=0.001))
    with Store.open(tmp_path, options) as store:
        commit(store, *(a_batch(an_export(1500, trace=trace, first=1500 * trace)) for trace in range(8)))
        seen: list[int] = []
        after = -1
        while (
            window := store.readings.window(after=after, until=EVERYTHING, limits=Limits(rows=5000, nbytes=1 << 10))
        ) is not None:
            assert window.spans.num_rows <= 2048
            seen += window.spans.column("seq").to_pylist()
            after = window.last_seq
        assert len(seen) == 12_000
        assert seen == sorted(set(seen))


@pytest.mark.parametrize("limits", [Limits(rows=10, nbytes=1 << 30), Limits(rows=1000, nbytes=1)])
def test_traces_that_do_not_fit_together_are_each_added_up_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limits: Limits
) -> None:
    """However many traces are due at a start, none is added up from a part of its spans."""
    with a_store(tmp_path) as store:
        keys = [TraceKey("", trace_id(number)) for number in range(40)]
        for part in range(2):
            talks = (a_talk(trace=number, first=4 * number + 2 * part) for number in range(40))
            commit(store, *(a_batch(talk) for talk in talks))
        progress = Progress(
            batch=reading_batch([], []), state=store.readings.state(), replaces=False, due=keys, finished=()
        )
        store.readings.store(progress)
        monkeypatch.setattr("collector.reading.reader._TRACE_LIMITS", limits)
        with reading(store) as reader:
            assert reader.wait_read(3 * WAIT_S)
        assert rows(store, "SELECT DISTINCT input_tokens, tool_call_count, span_count FROM traces") == [(14, 1, 4)]
        assert rows(store, "SELECT count(*) FROM trace_reading") == [(40,)]


def test_spans_that_are_not_read_yet_are_not_added_up(tmp_path: Path) -> None:
    """A trace that is due is added up from the spans that were read: what came since belongs to the next window."""
    with a_store(tmp_path) as store:
        commit(store, a_batch(an_export(3)))
        read = store.readings.window(after=-1, until=EVERYTHING, limits=LARGE)
        assert read is not None
        commit(store, a_batch(an_export(3, first=3)))
        key = TraceKey("", trace_id(0))
        window = store.readings.traces([key], until=read.last_seq, limits=LARGE)
        assert window is not None
        assert (window.spans.num_rows, window.last_seq) == (3, read.last_seq)
        assert store.readings.traces([key], until=-1, limits=LARGE) is None


def test_logs_that_do_not_fit_make_their_traces_due(tmp_path: Path) -> None:
    """Where a window has more log records than are taken out with it, its traces are read again in smaller numbers."""
    with a_store(tmp_path) as store:
        commit(store, a_batch(*(an_export(1, trace=number, first=number) for number in range(4))), some_logs(50))
        window = store.readings.window(after=-1, until=EVERYTHING, limits=Limits(rows=4, nbytes=1 << 20))
        assert window is not None
        assert window.is_cut
        assert _unfinished(window) == list(window.span_counts)
        large = store.readings.window(after=-1, until=EVERYTHING, limits=LARGE)
        assert large is not None
        assert (large.logs.num_rows, large.is_cut, _unfinished(large)) == (50, False, [])


def some_logs(count: int) -> SpanBatch:
    """Log records of the first span."""
    request = ExportLogsServiceRequest()
    records = request.resource_logs.add().scope_logs.add().log_records
    for number in range(count):
        records.add(
            trace_id=bytes.fromhex(trace_id(0)),
            span_id=bytes.fromhex(span_id(0)),
            time_unix_nano=START_NS + number,
            event_name="gen_ai.choice",
        )
    return decode([Request(body=request.SerializeToString(), signal=LOGS)], received_at_us=RECEIVED_AT_US).batch


def test_spans_of_an_older_file_are_read(tmp_path: Path) -> None:
    """Spans that were stored before there were readings are read after the upgrade, each once, beside new ones."""
    with a_store(tmp_path) as store:
        commit(store, a_batch(a_talk()), a_batch(a_talk(trace=1, first=2)))
    with duckdb.connect(str(tmp_path / "tracejury.duckdb")) as older:
        for view in ("spans", "traces", "tool_calls"):
            older.execute(f"DROP VIEW {view}")
        for table in ("reading", "tool_call", "trace_reading", "trace_due", "reading_state"):
            older.execute(f"DROP TABLE {table}")
        older.execute("ALTER TABLE span DROP COLUMN seq")
        older.execute("DELETE FROM tracejury_schema WHERE version = 3")
    with a_store(tmp_path) as store, reading(store) as reader:
        commit(store, a_batch(a_talk(first=4)))
        assert reader.wait_read(WAIT_S)
        assert rows(store, EVERY_SPAN) == [(6, 6, 6)]
        assert rows(store, "SELECT input_tokens FROM traces ORDER BY trace_id") == [(14,), (7,)]


def test_an_unknown_trace_is_due_in_vain(tmp_path: Path) -> None:
    """A trace that is due but not stored, such as one that was deleted, is forgotten."""
    with a_store(tmp_path) as store:
        commit(store, a_batch(an_export(1)))
        with reading(store) as reader:
            assert reader.wait_read(WAIT_S)
        gone = [TraceKey("", trace_id(7))]
        nothing = reading_batch([], [])
        store.readings.store(
            Progress(batch=nothing, state=store.readings.state(), replaces=False, due=gone, finished=())
        )
        with reading(store) as reader:
            assert reader.wait_read(WAIT_S)
        assert store.readings.due() == []


def test_reading_waits_for_ingest_only_so_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While ingest is behind, reading is put off, but not for ever."""
    monkeypatch.setattr("collector.reading.reader._PATIENCE_S", 0.2)
    with a_store(tmp_path) as store:
        process = ReadingProcess(OwnKeys({}))
        reader = Reader(store.readings, process, edition="1", ingest_is_behind=lambda: True)
        reader.start()
        try:
            commit(store, a_batch(an_export(5)))
            assert reader.wait_read(WAIT_S)
            assert rows(store, EVERY_SPAN) == [(5, 5, 5)]
        finally:
            reader.close()


def test_closing_is_prompt(tmp_path: Path) -> None:
    """A reader in the middle of a window stops at once; what it had not stored is read later."""
    with a_store(tmp_path) as store:
        program = POISON.format(name="span 0", deed="time.sleep(3600)")
        commit(store, a_batch(an_export(5)))
        with reading(store, program=program):
            time.sleep(1)
            started_s = time.monotonic()
        assert time.monotonic() - started_s < 60
        assert rows(store, "SELECT count(span_type) FROM spans") == [(0,)]


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


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_no_content_breaks_a_query(tmp_path: Path, text: str) -> None:
    """Whatever a sender writes, every column of every view can be selected, and its JSON is JSON for DuckDB."""
    keys = ("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.tool.call.arguments", "gen_ai.tool.call.result")
    request = a_talk()
    for span in request.resource_spans[0].scope_spans[0].spans:
        for key in keys:
            span.attributes.add(key=key).value.string_value = text
    with a_store(tmp_path) as store, reading(store) as reader:
        commit(store, a_batch(request))
        assert reader.wait_read(WAIT_S)
        for view in ("spans", "traces", "tool_calls"):
            assert rows(store, f"FROM {view}")
        columns = ("input_messages", "output_messages", "tool_arguments", "tool_definitions")
        valid = " AND ".join(f"coalesce(json_valid({name}), true)" for name in columns)
        assert rows(store, f"SELECT count(*) FROM spans WHERE NOT ({valid})") == [(0,)]
        assert rows(store, "SELECT count(*) FROM tool_calls WHERE NOT coalesce(json_valid(arguments), true)") == [(0,)]
        assert rows(store, "SELECT count(*) FROM spans WHERE notes LIKE 'this span could not be read%'") == [(0,)]


@pytest.mark.timeout(600)
def test_kills_leave_one_reading_a_span(tmp_path: Path, seed: int) -> None:
    """After kill -9 at random moments under load, every span has one reading and every trace one sum."""
    source = random.Random(seed)
    for _ in range(4):
        with a_live_server(tmp_path / "data") as server, Load(server, seed, spans=20) as load:
            time.sleep(source.uniform(0.5, 2.0))
            server.kill()
            load.stop()
    with a_live_server(tmp_path / "data") as server:
        until(lambda: read_all(server))
        assert server.sql("SELECT count(*) - count(DISTINCT seq) FROM reading") == [[0]]
        assert server.sql("SELECT count(*) - count(DISTINCT (tenant, trace_id)) FROM trace_reading") == [[0]]


def read_all(server: Live) -> bool:
    """Whether every span and every trace is read."""
    ((spans, read, _),) = server.sql(EVERY_SPAN)
    ((traces, added_up),) = server.sql(EVERY_TRACE)
    return (
        bool(spans) and spans == read and traces == added_up and server.sql("SELECT count(*) FROM trace_due") == [[0]]
    )


def until(happens: Callable[[], bool], seconds: float = 60) -> None:
    """Wait until something is so."""
    deadline_s = time.monotonic() + seconds
    while not happens():
        assert time.monotonic() < deadline_s
        time.sleep(0.1)


def test_messages_cross_the_pipe_unchanged() -> None:
    """A header and tables are read back as they were sent, and the end of the stream is told from a cut."""
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
