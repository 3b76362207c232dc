"""Traces are deleted when they have expired, with all that belongs to them, and the file frees their space."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.otlp.decode import Request, decode
from storage.engine.database import FILE_NAME
from storage.engine.free_space import UnknownFormat, free_blocks
from storage.ingest.writer import WriterOptions
from storage.records import JsonValue
from storage.store import Store, StoreOptions
from storage.upkeep.deletions import DeletionCriteria
from storage.upkeep.retention import Swept
from tests.alerting import a_finding
from tests.storing import RECEIVED_AT_US, START_NS, WAIT_S, a_batch, a_store, an_export, commit, rows, trace_id

pytestmark = pytest.mark.costly("collector/live", "collector/otlp", "storage")

DAY_US = 86_400_000_000
EXPIRED_US = RECEIVED_AT_US + 31 * DAY_US
FEW_BLOCKS = 4 * 256 * 1024  # of the file, which has some for each table; a day of these tests takes eight
TABLES_OF_SPANS = ("span", "trace_part", "decision", "job", "evaluation", "tool_call", "trace_reading")


def fill(store: Store, *statements: str) -> None:
    """Write into the tables that other parts of the server fill."""
    for statement in statements:
        store._writer.store(lambda cursor, text=statement: cursor.execute(text), 1)  # type: ignore[misc] # ditto


def evaluated(number: int) -> list[str]:
    """Return rows that a rule and its judge would leave about the first span of a trace."""
    trace = f"'' AS tenant, '{trace_id(number)}' AS trace_id"
    seq = f"(SELECT min(seq) FROM span WHERE trace_id = '{trace_id(number)}')"
    start = f"(SELECT min(start_time) FROM span WHERE trace_id = '{trace_id(number)}') AS start_time"
    job = f"{number} AS job_id, 1 AS revision, {seq} AS seq, {trace}, 0 AS round"
    rows_of = {
        "decision": f"1 AS revision, {seq} AS seq, 2 AS outcome, now()::TIMESTAMP AS decided_at",
        "evaluation": f"""{job}, 'shop' AS project, 'tone' AS name, 'f' AS fingerprint, 'scored' AS outcome,
            0.5 AS score, true AS passed, 10 AS input_tokens, 0.25 AS cost_usd, 1 AS attempts,
            TIMESTAMP '2026-11-21 10:00:00' AS created_at""",
        "job": f"{job}, 'ready' AS state, 0 AS attempts, now()::TIMESTAMP AS created_at",
        "tool_call": f"{trace}, 'x' AS span_id, 0 AS ordinal, 'x' AS name, false AS is_error, {start}",
        "trace_reading": f"{trace}, 0 AS tool_call_count, {start}",
    }
    read = f"UPDATE span SET span_type = 'llm', user_id = 'ann' WHERE seq = {seq}"
    return [read, *(f"INSERT INTO {table} BY NAME SELECT {columns}" for table, columns in rows_of.items())]


def later(number: int, interval: str) -> str:
    """Let a trace expire later."""
    return f"UPDATE trace_part SET expires_at = expires_at + INTERVAL {interval} WHERE trace_id = '{trace_id(number)}'"


def counts(store: Store) -> dict[str, object]:
    """Count the rows of each table that refers to spans."""
    return {table: rows(store, f"SELECT count(*) FROM {table}")[0][0] for table in TABLES_OF_SPANS}


def test_an_expired_trace_leaves_every_table(tmp_path: Path) -> None:
    """A trace whose spans have all expired is gone with everything about it; one that goes on stays whole."""
    with a_store(tmp_path) as store:
        commit(store, a_batch(an_export(3, trace=1), an_export(2, trace=2)))
        fill(
            store,
            *evaluated(1),
            *evaluated(2),
            later(2, "5 DAY"),
        )
        assert store.retention.sweep(now_us=EXPIRED_US - 2 * DAY_US).traces == 0
        swept = store.retention.sweep(now_us=EXPIRED_US)
        assert (swept.traces, swept.spans) == (1, 3)
        assert counts(store) == dict.fromkeys(TABLES_OF_SPANS, 1) | {"span": 2}
        assert store.queries.trace(trace_id(1)) is None


def test_a_late_span_renews_its_trace(tmp_path: Path) -> None:
    """A trace is kept as long as any of its parts, so a late span keeps the early ones."""
    with a_store(tmp_path) as store:
        commit(store, a_batch(an_export(3)))
        commit(store, a_batch(an_export(1, first=3)))
        fill(store, "UPDATE trace_part SET expires_at = expires_at + INTERVAL 5 DAY WHERE batch = 2")
        assert store.retention.sweep(now_us=EXPIRED_US).traces == 0
        assert store.retention.sweep(now_us=EXPIRED_US + 5 * DAY_US).spans == 4


def test_results_outlive_their_traces_as_daily_sums(tmp_path: Path) -> None:
    """Counts, sums and costs of evaluations stay by day and fingerprint, and a replaced result counts as cost only."""
    with a_store(tmp_path) as store:
        commit(store, a_batch(*(an_export(1, trace=number) for number in (1, 2, 3))))
        fill(
            store,
            *evaluated(1),
            *evaluated(2),
            *evaluated(3),
            "INSERT INTO superseded (job_id, superseded_at) VALUES (3, now()::TIMESTAMP)",
        )
        fill(store, "UPDATE evaluation SET judge_calls = 4, cost_usd = NULL WHERE job_id = 2")
        store.retention.sweep(now_us=EXPIRED_US)
        sums = "scored, passed, score_sum, score_square_sum, input_tokens, cost_usd, unpriced_calls"
        kept = rows(store, f"SELECT day::VARCHAR, name, {sums} FROM evaluation_day")
        assert kept == [("2026-11-21", "tone", 2, 2, 1.0, 0.5, 30, 0.5, 4)]
        assert rows(store, "SELECT count(*) FROM superseded") == [(0,)]


def test_a_pinned_trace_stays_until_nothing_holds_it(tmp_path: Path) -> None:
    """Each reason to keep a trace holds by itself, and a pin that is set twice is one."""
    with a_store(tmp_path) as store:
        commit(store, a_batch(an_export(3)))
        for _ in range(2):
            store.retention.pin(trace_id(0), now_us=0)
        store.retention.pin(trace_id(0), now_us=0, why="alert 7")
        assert store.retention.pins(trace_id(0)) == ["alert 7", "hand"]
        store.retention.unpin(trace_id(0))
        assert store.retention.sweep(now_us=EXPIRED_US).traces == 0
        store.retention.unpin(trace_id(0), why="alert 7")
        assert store.retention.sweep(now_us=EXPIRED_US).traces == 1


def test_an_alert_keeps_its_examples_until_it_is_over(tmp_path: Path) -> None:
    """The traces that an open alert shows do not expire; the alert's numbers and examples outlive them."""
    with a_store(tmp_path) as store:
        commit(store, a_batch(an_export(3, trace=1), an_export(2, trace=2)))
        example: dict[str, JsonValue] = {"traceId": trace_id(1), "spanId": None, "score": 0.0, "reason": "rude"}
        finding = a_finding(document={"examples": [example, example], "sql": "SELECT 1"})
        assert store.alerts.open(finding, RECEIVED_AT_US * 1000)
        assert store.retention.pins(trace_id(1)) == [f"alert {finding.alert_id}"]
        store.alerts.acknowledge(finding.alert_id, RECEIVED_AT_US * 1000)
        assert store.retention.sweep(now_us=EXPIRED_US).spans == 2
        assert store.alerts.recover(finding.alert_id, {}, EXPIRED_US * 1000)
        assert store.retention.sweep(now_us=EXPIRED_US).spans == 3
        (alert,) = store.alerts.newest()
        assert alert.finding == finding


def test_what_settling_and_judging_left_goes_with_the_trace(tmp_path: Path) -> None:
    """Every part of an open trace is forgotten, and so is the mark of a job that was never done."""
    arrival = "INSERT INTO trace_open SELECT '', '{}', now()::TIMESTAMP, now()::TIMESTAMP, false, 1, {}"
    with a_store(tmp_path) as store:
        commit(store, a_batch(an_export(3, trace=1), an_export(2, trace=2)))
        fill(
            store,
            *(arrival.format(trace_id(trace), seq) for trace in (1, 2) for seq in (1, 2)),
            *(statement for number in (1, 2) for statement in evaluated(number) if "INTO job " in statement),
            *(
                f"INSERT INTO superseded (job_id, superseded_at) VALUES ({number}, now()::TIMESTAMP)"
                for number in (1, 2)
            ),
            later(2, "5 DAY"),
        )
        store.retention.sweep(now_us=EXPIRED_US)
        assert rows(store, "SELECT DISTINCT trace_id, count(*) FROM trace_open GROUP BY ALL") == [(trace_id(2), 2)]
        assert rows(store, "SELECT job_id FROM superseded") == [(2,)]


def test_ledgers_go_by_age(tmp_path: Path) -> None:
    """Requests to judges and ended backfills leave after 90 days, but neither the last call nor a run under way."""
    old, new = (f"make_timestamp({RECEIVED_AT_US - days * DAY_US})" for days in (91, 89))
    call = """INSERT INTO judge_call BY NAME SELECT i AS call_id, DATE '2026-01-01' AS day, '' AS tenant,
        'c' AS connection_id, 0 AS reserved_tokens, 0 AS reserved_usd, {} AS started_at FROM range({}, {}) AS r(i)"""
    backfill = """INSERT INTO backfill BY NAME SELECT '{0}' AS backfill_id, 1 AS revision, '1970-01-01' AS from_time,
        '1970-01-01' AS to_time, 0 AS after_seq, 0 AS until_seq, 0 AS looked_at, 0 AS matched, '{0}' AS state,
        {1} AS created_at, {1} AS updated_at"""
    with a_store(tmp_path) as store:
        fill(store, call.format(old, 1, 40_001), backfill.format("done", old), backfill.format("running", old))
        store.retention.sweep(now_us=RECEIVED_AT_US)
        assert rows(store, "SELECT call_id FROM judge_call") == [(40_000,)]
        fill(store, call.format(new, 40_001, 40_003), backfill.format("failed", new))
        store.retention.sweep(now_us=RECEIVED_AT_US)
        assert rows(store, "SELECT call_id FROM judge_call ORDER BY ALL") == [(40_001,), (40_002,)]
        assert rows(store, "SELECT state FROM backfill ORDER BY ALL") == [("failed",), ("running",)]


def test_a_project_may_keep_longer_or_shorter(tmp_path: Path) -> None:
    """The days of a project beat those of all."""
    options = WriterOptions(commit_interval_s=0.001, retention_days=30, project_retention_days={"lab": 2, "bank": 90})
    with Store.open(tmp_path, StoreOptions(writer=options)) as store:
        commit(store, a_batch(*(an_export(1, trace=n, project=name) for n, name in enumerate(("lab", "shop", "bank")))))
        for days, left in ((1, 3), (3, 2), (31, 1), (91, 0)):
            store.retention.sweep(now_us=RECEIVED_AT_US + days * DAY_US)
            assert rows(store, "SELECT count(*) FROM traces") == [(left,)]


def test_a_clock_that_was_set_back_lets_nothing_expire_early(tmp_path: Path) -> None:
    """A row that is received before the previous one expires with it; the next later row follows the clock again."""
    options = WriterOptions(commit_interval_s=0.001, retention_days=30)
    with Store.open(tmp_path, StoreOptions(writer=options)) as store:
        for number, days in enumerate((5, 0, 3, 6)):
            batch = a_batch(an_export(1, trace=number, first=number))
            at = pa.array([RECEIVED_AT_US + days * DAY_US], batch.spans.schema.field("received_at").type)
            place = batch.spans.schema.get_field_index("received_at")
            commit(store, replace(batch, spans=batch.spans.set_column(place, "received_at", at)))
        expiry = f"SELECT date_diff('day', make_timestamp({RECEIVED_AT_US}), expires_at) FROM trace_part ORDER BY batch"
        assert rows(store, expiry) == [(35,), (35,), (35,), (36,)]


@pytest.mark.costly("collector/live/upkeep", "storage")
def test_a_file_that_is_too_large_loses_the_oldest_first(tmp_path: Path) -> None:
    """Beyond the size limit the traces that expire soonest are deleted, and not many more than necessary."""
    with a_store(tmp_path) as store:
        for number in range(40):
            commit(store, a_batch(an_export(2000, trace=number, first=2000 * number)))
            fill(
                store,
                later(number, f"{number} HOUR"),
            )
        store._database.checkpoints.make()
        used = store._database.size().used_bytes
        limit = used * 2 // 3
        store.retention.sweep(now_us=RECEIVED_AT_US, max_bytes=limit)
        size = store._database.size()
        assert size.used_bytes <= limit + size.block_bytes  # which what the sweep notes at its end may take
        left = [number for (number,) in rows(store, "SELECT ('0x' || trace_id)::UBIGINT - 1 FROM traces ORDER BY 1")]
        assert left == list(range(40 - len(left), 40))
        assert len(left) > 8


@pytest.mark.parametrize("name", ["trace_id", "session_id", "user_id", "project", "before_ns"])
def test_traces_are_deleted_by_what_is_known_of_them(tmp_path: Path, name: str) -> None:
    """Each filter deletes the trace that it names and no other, wherever it is kept."""
    values = {"trace_id": trace_id(1), "session_id": "s", "user_id": "ann", "project": "lab", "before_ns": START_NS}
    with a_store(tmp_path) as store:
        commit(store, a_batch(an_export(3, trace=1, project="lab", start_ns=START_NS - 9), an_export(2, trace=2)))
        fill(store, *evaluated(1), f"UPDATE trace_reading SET session_id = 's' WHERE trace_id = '{trace_id(1)}'")
        store.retention.pin(trace_id(1), now_us=0)
        assert store.retention.delete(DeletionCriteria(**{name: values[name]}), now_us=RECEIVED_AT_US) == 1  # type: ignore[arg-type] # each its own type
        assert rows(store, "SELECT trace_id, count(*) FROM span GROUP BY ALL") == [(trace_id(2), 2)]
        assert counts(store) == dict.fromkeys(TABLES_OF_SPANS, 0) | {"span": 2, "trace_part": 1}
        assert rows(store, "SELECT count(*) FROM trace_pin") == [(0,)]


def test_a_copy_that_comes_after_its_trace_was_swept_is_stored_again(tmp_path: Path) -> None:
    """A swept trace is not remembered, so that a later copy is stored."""
    with a_store(tmp_path) as store:
        commit(store, a_batch(an_export(3)))
        store.retention.sweep(now_us=EXPIRED_US)
        commit(store, a_batch(an_export(3)))
        assert rows(store, "SELECT stored, already_present FROM ingest_state") == [(6, 0)]
        assert rows(store, "SELECT count(*) FROM spans WHERE resource_attributes IS NOT NULL") == [(3,)]


@pytest.mark.costly("collector/live/upkeep", "storage")
def test_the_disk_gets_back_what_a_sweep_frees(tmp_path: Path) -> None:
    """The file takes less of the disk after a sweep, also if the kept rows lie behind the deleted ones."""
    with a_store(tmp_path) as store:
        for number in range(18):
            commit(store, a_batch(an_export(8192, trace=number, first=8192 * number)))
        last = later(17, "5 DAY")
        fill(store, last)
        store._database.checkpoints.make()
        before = (tmp_path / FILE_NAME).stat().st_blocks * 512
        swept = store.retention.sweep(now_us=EXPIRED_US)
        after = (tmp_path / FILE_NAME).stat().st_blocks * 512
        assert swept == Swept(traces=17, spans=17 * 8192, freed_bytes=swept.freed_bytes)
        assert swept.freed_bytes is not None
        assert swept.freed_bytes > before // 2
        assert after < before // 2
        assert rows(store, "SELECT count(*), count(DISTINCT span_id), max(length(name)) FROM span") == [
            (8192, 8192, 11)
        ]
        commit(store, a_batch(an_export(8192, trace=40)))
    with a_store(tmp_path) as store:
        assert rows(store, "SELECT count(*), count(DISTINCT span_id) FROM span") == [(16384, 16384)]
        assert store.wait_committed(WAIT_S)


def test_a_reader_keeps_what_it_reads_and_room_comes_back_after_it(tmp_path: Path) -> None:
    """Holes are punched only while there is no reader, so a query that began before a sweep ends right."""
    with a_store(tmp_path) as store:
        commit(store, *(a_batch(an_export(8192, trace=number, first=8192 * number)) for number in range(4)))
        with store._database.cursor() as reader:
            reader.execute("BEGIN TRANSACTION READ ONLY")
            assert reader.execute("SELECT count(*) FROM span").fetchall() == [(4 * 8192,)]
            assert store.retention._expire(EXPIRED_US, lambda: False) == (4, 4 * 8192)
            store._database.checkpoints.make()
            assert store._database.trim() is None
            assert reader.execute("SELECT count(DISTINCT span_id), max(length(name)) FROM span").fetchall() == [
                (4 * 8192, 10)
            ]
        assert store.retention.trim() is not None
        assert rows(store, "SELECT count(*) FROM span") == [(0,)]


def test_a_file_of_another_layout_is_left_alone(tmp_path: Path) -> None:
    """A file that is not a DuckDB file, or names impossible blocks, is refused."""
    with a_store(tmp_path) as store:
        commit(store, a_batch(an_export(3)))
    content = (tmp_path / FILE_NAME).read_bytes()
    changed = [content[:100], b"x" * 20_000]
    for header in (4096, 8192):  # only one of the two is active
        content = content[: header + 24] + (1 << 40).to_bytes(8, "little") + content[header + 32 :]
    for damaged in (*changed, content):
        (tmp_path / "other").write_bytes(damaged)
        with pytest.raises(UnknownFormat):
            free_blocks(tmp_path / "other")


@pytest.mark.costly("collector/live/upkeep", "storage")
def test_ten_days_of_traffic_level_off(tmp_path: Path) -> None:
    """With three days kept, neither the file nor the room that it takes grows after the fourth day."""
    options = WriterOptions(commit_interval_s=0.001, retention_days=3)
    taken = []
    with Store.open(tmp_path, StoreOptions(writer=options)) as store:
        for day in range(10):
            for number in range(8 * day, 8 * day + 8):
                at_us = RECEIVED_AT_US + day * DAY_US
                export = an_export(4096, trace=number, first=4096 * number, start_ns=1000 * at_us)
                commit(store, decode([Request(body=export.SerializeToString(), tenant="")], received_at_us=at_us).batch)
            store.retention.sweep(now_us=RECEIVED_AT_US + (day + 1) * DAY_US)
            file = (tmp_path / FILE_NAME).stat()
            taken.append((file.st_size, 512 * file.st_blocks))
            days_left = "SELECT count(DISTINCT received_at), count(*) FROM span"
            assert rows(store, days_left) == [(min(day + 1, 3), 32768 * min(day + 1, 3))]
    assert max(size for size, _ in taken[4:]) <= 1.15 * taken[3][0] + FEW_BLOCKS
    assert max(room for _, room in taken[4:]) <= 1.15 * taken[3][1] + FEW_BLOCKS


def a_secret_export(trace: int, spans: int, secret: str) -> ExportTraceServiceRequest:
    """Build a trace whose spans each hold another text."""
    request = an_export(spans, trace=trace, first=1000 * trace)
    for number, span in enumerate(request.resource_spans[0].scope_spans[0].spans):
        span.attributes.add(key="input.value").value.string_value = f"{secret}-{number:04}-{'x' * (number % 7)}"
    return request


def bytes_on_disk(directory: Path) -> bytes:
    """Read all files of a data directory."""
    return b"".join(path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file())


@pytest.mark.costly("collector/live/upkeep", "storage")
@pytest.mark.parametrize("spans", [3, 300, 9000])
def test_a_deleted_trace_is_gone_from_the_disk_after_the_next_sweep(tmp_path: Path, spans: int) -> None:
    """No file holds a word of a trace that was deleted on request, although its neighbours live on."""
    with a_store(tmp_path) as store:
        for number in range(4):
            commit(store, a_batch(a_secret_export(number, spans, f"what number {number} said")))
            read = f"UPDATE span SET input = 'what number {number} said, as read' WHERE input IS NULL"
            judged = f"UPDATE evaluation SET reason = 'what number {number} said, as judged' WHERE reason IS NULL"
            fill(store, *evaluated(number), read, judged)
        store._database.checkpoints.make()
        held = bytes_on_disk(tmp_path)
        assert all(f"what number {number}".encode() in held for number in range(4))
        assert store.retention.delete(DeletionCriteria(trace_id=trace_id(1)), now_us=RECEIVED_AT_US) == 1
        assert store.retention.delete(DeletionCriteria(trace_id=trace_id(3)), now_us=RECEIVED_AT_US) == 1
        assert store.retention.sweep(now_us=RECEIVED_AT_US).freed_bytes is not None
        held = bytes_on_disk(tmp_path)
        assert [number for number in range(4) if f"what number {number}".encode() in held] == [0, 2]
        assert rows(store, "SELECT trace_id, count(*), count(DISTINCT span_id) FROM spans GROUP BY ALL ORDER BY 1") == [
            (trace_id(0), spans, spans),
            (trace_id(2), spans, spans),
        ]
