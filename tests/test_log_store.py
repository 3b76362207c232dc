"""Log records in the store: kept once, joined to their spans whenever they come, and never lost."""

import struct
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from storage.engine.database import ROW_GROUP_ROWS
from storage.ingest.batch import LOGS, SpanBatch
from storage.ingest.spool import Position, Spool
from storage.ingest.state import Totals
from storage.query.queries import MAX_LOGS
from storage.records import LogRecord
from storage.store import Store
from tests.log_requests import MESSAGE, a_log, a_log_batch, a_log_export, some_logs
from tests.storing import START_NS, WAIT_S, a_batch, a_store, an_export, commit, rows, span_id, trace_id

pytestmark = pytest.mark.costly("collector/conventions", "collector/otlp", "collector/reading", "storage")

DAY_NS = 86_400 * 10**9


def bodies(store: Store, trace: int = 0, tenant: str = "") -> list[object]:
    """Return the bodies of the log records of a trace, in its order."""
    trace_read = store.queries.trace(trace_id(trace), tenant=tenant)
    assert trace_read is not None
    return [log.body for log in trace_read.logs]


def messages(*numbers: int) -> list[str]:
    """Return the bodies of the numbered records."""
    return [f"message {number}" for number in numbers]


def counted(store: Store) -> tuple[int, int]:
    """Count stored log records and duplicates."""
    totals = store.totals
    kept = (totals.logs_stored, totals.logs_already_present)
    assert rows(store, "SELECT logs_stored, logs_already_present FROM ingest_state") == [kept]
    assert rows(store, "SELECT count(*) FROM logs") == [(totals.logs_stored,)]
    return kept


@pytest.mark.parametrize("order", ["before", "after", "together", "one batch"])
def test_log_records_join_their_span_whenever_they_come(tmp_path: Path, order: str) -> None:
    """A trace has the log records of its spans, whether they were committed before, with, or after these."""
    spans, logs = a_batch(an_export(2)), a_log_batch(some_logs(3))
    with a_store(tmp_path, commit_interval_s=0.05) as store:
        match order:
            case "before":
                commit(store, logs)
                assert store.queries.trace(trace_id(0)) is None
                commit(store, spans)
            case "after":
                commit(store, spans)
                assert bodies(store) == []
                commit(store, logs)
            case "together":
                commit(store, spans, logs)
            case _:
                both = SpanBatch(
                    spans=spans.spans,
                    resources=pa.concat_tables([spans.resources, logs.resources]),
                    scopes=pa.concat_tables([spans.scopes, logs.scopes]),
                    logs=logs.logs,
                )
                commit(store, both)
        assert bodies(store) == messages(0, 1, 2)
        assert store.totals.stored == 2
        assert counted(store) == (3, 0)
    with a_store(tmp_path) as store:
        assert bodies(store) == messages(0, 1, 2)


def test_a_trace_of_which_only_logs_have_come_is_none(tmp_path: Path) -> None:
    """Log records by themselves are stored but make no trace, in no list."""
    with a_store(tmp_path) as store:
        commit(store, a_log_batch(some_logs(2)))
        assert store.queries.trace(trace_id(0)) is None
        assert store.queries.newest_traces() == []
        assert rows(store, "SELECT count(*) FROM traces") == [(0,)]
        assert counted(store) == (2, 0)


def test_a_log_record_comes_back_as_it_was_sent(tmp_path: Path) -> None:
    """Ids, event name, time, body and attributes are those that came, with their types."""
    body = AnyValue()
    body.kvlist_value.values.add(key="content").value.string_value = "Hello?"
    body.kvlist_value.values.add(key="raw").value.bytes_value = b"\0"
    body.kvlist_value.values.add(key="ratio").value.double_value = 1.0
    record = a_log(
        5,
        span=1,
        body=body,
        attributes=[
            KeyValue(key="gen_ai.system", value=AnyValue(string_value="openai")),
            KeyValue(key="index", value=AnyValue(int_value=0)),
        ],
    )
    with a_store(tmp_path) as store:
        commit(store, a_batch(an_export(2)), a_log_batch(a_log_export(record)))
        trace = store.queries.trace(trace_id(0))
        assert trace is not None
        assert trace.logs == (
            LogRecord(
                tenant="",
                trace_id=trace_id(0),
                span_id=span_id(1),
                time_ns=START_NS + 5,
                event_name=MESSAGE,
                body={"content": "Hello?", "raw": b"\0", "ratio": 1.0},
                attributes={"gen_ai.system": "openai", "index": 0},
            ),
        )


def test_the_view_shows_log_records_with_their_resource(tmp_path: Path) -> None:
    """The view has the columns that dashboards may rely on, with their types and values."""
    record = a_log(1, severity_text="INFO", attributes=[KeyValue(key="n", value=AnyValue(int_value=7))])
    texts = "MAP(VARCHAR, VARCHAR)"
    with a_store(tmp_path) as store:
        commit(store, a_log_batch(a_log_export(record, project="bot")))
        assert rows(store, "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = 'logs'") == [
            *((name, "VARCHAR") for name in ("tenant", "trace_id", "span_id")),
            ("time", "TIMESTAMP_NS"),
            *((name, "VARCHAR") for name in ("event_name", "severity_text", "body")),
            ("attributes", texts),
            ("resource_attributes", texts),
            ("scope_name", "VARCHAR"),
        ]
        question = """
            SELECT trace_id, span_id, epoch_ns("time"), event_name, severity_text, body, attributes['n'],
                resource_attributes['service.name'], scope_name
            FROM logs
        """
        assert rows(store, question) == [
            (trace_id(0), span_id(0), START_NS + 1, MESSAGE, "INFO", "message 1", "7", "bot", "instrumentation")
        ]


@pytest.mark.parametrize("at_ns", [START_NS, 0, 1, START_NS - 40 * DAY_NS, 2**63 - 10])
def test_one_request_delivered_twice_is_stored_once(tmp_path: Path, at_ns: int) -> None:
    """Copies in a batch, in a commit, later, and after a restart are counted as present, whatever time they claim."""
    export = some_logs(3, at_ns=at_ns)
    with a_store(tmp_path, commit_interval_s=0.3) as store:
        commit(store, a_batch(an_export()), a_log_batch(export, export), a_log_batch(export))
        assert counted(store) == (3, 6)
        commit(store, a_log_batch(export))
        assert counted(store) == (3, 9)
    with a_store(tmp_path) as store:
        commit(store, a_log_batch(some_logs(2, first=3, at_ns=at_ns), export))
        assert counted(store) == (5, 12)
        assert sorted(map(str, bodies(store))) == messages(0, 1, 2, 3, 4)


def test_equal_records_of_other_traces_and_tenants_are_others(tmp_path: Path) -> None:
    """A copy is one within its trace and tenant, and each tenant sees its own."""
    with a_store(tmp_path) as store:
        for tenant in ("a", "b", "a"):
            commit(store, a_batch(an_export(), tenant=tenant), a_log_batch(some_logs(1), tenant=tenant))
        commit(store, a_log_batch(some_logs(1, trace=1), tenant="a"))
        assert counted(store) == (3, 1)
        assert bodies(store, tenant="a") == bodies(store, tenant="b") == messages(0)


def test_log_records_are_read_by_time_and_then_as_they_came(tmp_path: Path) -> None:
    """The observed time stands in for a time that was not set, and records without any keep their order."""
    records = [
        a_log(4, at_ns=0),
        a_log(3, at_ns=0, observed_time_unix_nano=START_NS + 3),
        a_log(2),
        a_log(1, observed_time_unix_nano=START_NS + 99),
        a_log(0, at_ns=0),
    ]
    with a_store(tmp_path) as store:
        commit(store, a_batch(an_export()), a_log_batch(a_log_export(*records)))
        assert bodies(store) == messages(4, 0, 1, 2, 3)
        trace = store.queries.trace(trace_id(0))
        assert trace is not None
        assert [log.time_ns for log in trace.logs] == [0, 0, START_NS + 1, START_NS + 2, START_NS + 3]


def test_log_records_of_any_age_are_found(tmp_path: Path) -> None:
    """Records whose times have nothing to do with those of their span are read with it."""
    times = [START_NS - 400 * DAY_NS, START_NS, START_NS + 400 * DAY_NS]
    with a_store(tmp_path) as store:
        commit(store, a_batch(an_export()))
        for number, at_ns in enumerate(times):
            commit(store, a_log_batch(a_log_export(a_log(number, at_ns=at_ns), a_log(9, trace=number + 1))))
        assert bodies(store) == messages(0, 1, 2)


@pytest.mark.parametrize("odd_ns", [1, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1])
def test_times_at_the_ends_of_what_the_wire_can_say_do_no_harm(tmp_path: Path, odd_ns: int) -> None:
    """A record whose clock is off by centuries is stored once and read, and so are its neighbours."""
    export = a_log_export(a_log(1), a_log(2, at_ns=0, time_unix_nano=odd_ns), a_log(3, observed_time_unix_nano=odd_ns))
    with a_store(tmp_path) as store:
        commit(store, a_batch(an_export()), a_log_batch(export))
        commit(store, a_log_batch(export))
        assert counted(store) == (3, 3)
        assert sorted(map(str, bodies(store))) == messages(1, 2, 3)


def test_no_more_log_records_than_the_bound_are_read(tmp_path: Path) -> None:
    """Of a trace with very many log records the first are read, and of a span its own, however many are before them."""
    last = MAX_LOGS + 10
    with a_store(tmp_path) as store:
        commit(store, a_batch(an_export(2)), a_log_batch(some_logs(last), some_logs(1, first=last, span=1)))
        assert bodies(store) == messages(*range(MAX_LOGS))
        outline = store.outlines.of_trace(trace_id(0))
        assert outline is not None
        whole = store.outlines.span(outline, span_id(1))
        assert whole is not None
        assert [log.body for log in whole.logs] == messages(last)


def test_log_records_are_found_by_the_number_of_their_commit(tmp_path: Path) -> None:
    """Which traces got log records since a commit can be asked of the table."""
    with a_store(tmp_path) as store:
        commit(store, a_log_batch(some_logs(2, trace=0)))
        seen = store.totals.batch
        commit(store, a_log_batch(some_logs(2, trace=1), some_logs(1, trace=0)), a_batch(an_export()))
        newer = f"SELECT DISTINCT trace_id FROM log_record WHERE batch > {seen}"
        assert rows(store, newer) == [(trace_id(1),)]


def in_spool(directory: Path, *batches: SpanBatch, position: Position | None = None) -> None:
    """Create a data directory as a crash leaves it: batches in the spool, in the database up to a position."""
    with a_store(directory) as store, store._database.transaction() as cursor:
        done = position or Position()
        cursor.execute("UPDATE ingest_state SET spool_sequence = ?, spool_rows = ?", [done.sequence, done.rows])
    spool = Spool(directory / "spool", after=Position())
    for batch in batches:
        spool.append([batch])
    spool.close()


def mixed(number: int) -> SpanBatch:
    """Return two spans and three log records that hold their numbers."""
    spans, logs = a_batch(an_export(2, first=2 * number)), a_log_batch(some_logs(3, first=3 * number))
    return SpanBatch(spans=spans.spans, resources=spans.resources, scopes=spans.scopes, logs=logs.logs)


@pytest.mark.parametrize("skipped", range(6))
def test_a_start_goes_on_exactly_after_the_committed_position(tmp_path: Path, skipped: int) -> None:
    """Of a group that was committed in part, the rest of its spans and log records follow, and all that came later."""
    in_spool(tmp_path, mixed(0), mixed(1), position=Position(0, skipped))
    with a_store(tmp_path) as store:
        assert store.totals.stored == 4 - min(skipped, 2)
        assert counted(store) == (6 - max(skipped - 2, 0), 0)
        commit(store, mixed(2))
        assert store.totals.stored == 6 - min(skipped, 2)
        assert bodies(store) == messages(*range(max(skipped - 2, 0), 9))
    assert not list((tmp_path / "spool").glob("*.unreadable"))


def test_a_batch_without_log_records_is_written_as_before_there_were_any(tmp_path: Path) -> None:
    """A batch of spans alone is spooled as three streams behind three lengths, and read back from that."""
    batch = a_batch(an_export(3))
    sink = [pa.BufferOutputStream() for _ in range(3)]
    for stream, table in zip(sink, (batch.spans, batch.resources, batch.scopes), strict=True):
        with pa.ipc.new_stream(stream, table.schema) as writer:
            writer.write_table(table)
    streams = [stream.getvalue().to_pybytes() for stream in sink]
    old = struct.pack("<QQQ", *map(len, streams)) + b"".join(streams)
    assert b"".join(bytes(memoryview(part)) for part in batch.to_buffers()) == old
    read = SpanBatch.from_buffer(pa.py_buffer(old))
    assert read.spans.equals(batch.spans)
    assert read.logs.num_rows == 0
    assert read.logs.schema.equals(LOGS)
    in_spool(tmp_path, read)
    with a_store(tmp_path) as store:
        assert store.totals == Totals(batch=1, stored=3, already_present=0)


def test_log_records_come_back_from_the_spool_as_they_were(tmp_path: Path) -> None:
    """A batch with log records is read as it was written."""
    batch = mixed(0)
    spool = Spool(tmp_path, after=Position())
    spool.append([batch])
    spool.close()
    (group,) = Spool(tmp_path, after=Position()).recover(Position())
    assert group.batch.logs.equals(batch.logs)
    assert group.batch.spans.equals(batch.spans)
    assert group.batch.num_rows == 5


def test_very_many_log_records_are_committed_in_parts(tmp_path: Path) -> None:
    """No commit takes more log records than a row group of spans, and small groups of them share one."""
    total = 2 * ROW_GROUP_ROWS + 100
    with a_store(tmp_path, commit_interval_s=60) as store:
        store.append([a_log_batch(some_logs(total)), a_batch(an_export(3))])
        for number in range(20):
            store.append([a_log_batch(some_logs(2, first=total + 2 * number))])
    with a_store(tmp_path) as store:
        assert counted(store) == (total + 40, 0)
        sizes = rows(store, "SELECT count(*) FROM log_record GROUP BY batch ORDER BY batch")
        assert sizes == [(ROW_GROUP_ROWS,), (ROW_GROUP_ROWS,), (140,)]
        assert store.totals.stored == 3


def test_spans_fill_whole_row_groups_however_many_log_records_come_among_them(tmp_path: Path) -> None:
    """Log records do not count when a commit of spans is filled up."""
    with a_store(tmp_path, commit_interval_s=60) as store:
        for first in range(0, 2 * ROW_GROUP_ROWS + 100, 700):
            store.append([a_batch(an_export(700, first=first)), a_log_batch(some_logs(90, first=first))])
    with a_store(tmp_path) as store:
        spans = rows(store, "SELECT count(*) FROM span GROUP BY batch ORDER BY batch")
        assert spans[:2] == [(ROW_GROUP_ROWS,), (ROW_GROUP_ROWS,)]
        assert counted(store) == (90 * 24, 0)


def test_a_log_record_that_cannot_be_stored_is_set_aside(tmp_path: Path) -> None:
    """One impossible record is written to a file, and all others and the spans beside it are committed."""
    batch = mixed(0)
    names = pa.array([MESSAGE, None, MESSAGE])
    place = LOGS.get_field_index("event_name")
    broken = SpanBatch(
        spans=batch.spans,
        resources=batch.resources,
        scopes=batch.scopes,
        logs=batch.logs.set_column(place, LOGS.field("event_name"), names),
    )
    with a_store(tmp_path) as store:
        store.append([broken])
        commit(store, mixed(1))
        assert store.failing is None
        assert bodies(store) == messages(0, 2, 3, 4, 5)
        assert store.totals.stored == 4
        assert counted(store) == (5, 0)
    (file,) = (tmp_path / "set-aside").iterdir()
    assert pa.ipc.open_stream(file.read_bytes()).read_all().column("body").to_pylist() == ["message 1"]


deliveries = st.lists(
    st.lists(st.tuples(st.booleans(), st.integers(0, 2), st.integers(0, 5)), min_size=1, max_size=8),
    min_size=1,
    max_size=4,
)


@given(deliveries)
@settings(max_examples=20)
def test_any_deliveries_equal_the_set_of_their_rows(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[tuple[bool, int, int]]]
) -> None:
    """However spans and log records are repeated and mixed, each is stored once, and both accounts agree."""
    with a_store(tmp_path_factory.mktemp("store")) as store:
        for batch in batches:
            for is_log, trace, number in batch:
                one = some_logs(1, trace=trace, first=number)
                store.append([a_log_batch(one) if is_log else a_batch(an_export(trace=trace, first=number))])
        assert store.wait_committed(WAIT_S)
        everything = [row for batch in batches for row in batch]
        logs, spans = ({row for row in everything if row[0] is is_log} for is_log in (True, False))
        assert counted(store) == (len(logs), sum(row[0] for row in everything) - len(logs))
        assert store.totals.stored == len(spans)
        assert store.totals.already_present == sum(not row[0] for row in everything) - len(spans)
        stored = rows(store, "SELECT trace_id, body FROM logs ORDER BY ALL")
        assert stored == sorted((trace_id(trace), f"message {number}") for _, trace, number in logs)
