"""Files of the layout before, with spans and what they mean in tables of their own, become one table."""

import random
from pathlib import Path

import duckdb
import pytest

from collector.conventions.own import NO_KEYS
from collector.reading.spans import ConventionsReader
from storage import sql
from storage.engine import widening
from storage.engine.database import FILE_NAME
from storage.store import Store
from tests.matching import adding_up
from tests.storing import START_NS, WAIT_S, a_batch, a_store, an_export, commit, rows

SPANS, UNREAD = 3_000, 10

OLD_SPANS = """
INSERT INTO span BY NAME SELECT
    'acme' AS tenant, printf('%032x', i // 10 + 1) AS trace_id, printf('%016x', i + 1) AS span_id,
    CASE WHEN i % 10 > 0 THEN printf('%016x', i - i % 10 + 1) END AS parent_span_id,
    'span ' || i AS name, 1 AS kind, make_timestamp_ns($start_ns + i * 1000) AS start_time,
    CASE WHEN i % 100 = 7 THEN NULL ELSE make_timestamp_ns($start_ns + i * 1000 + 2000000) END AS end_time,
    MAP {'input.value': 'question ' || i || ' is long enough', 'input.messages': '[{"role": "user"}]',
         'n': i::VARCHAR} AS attributes,
    'ssi' AS attribute_types, 0 AS dropped_attributes_count, 0 AS status_code, 'shop' AS project,
    'shop' AS service_name,
    (i % 3)::UBIGINT AS resource_id, (i % 2)::UBIGINT AS scope_id, TIMESTAMP '2026-11-21 10:00:00' AS received_at,
    i // 1000 + 1 AS batch, ((i // 1000 + 1) << 20) + i % 1000 AS seq, [] AS events, [] AS links,
    0 AS dropped_events_count, 0 AS dropped_links_count, '' AS trace_state, 0 AS flags, '' AS status_message
FROM range($spans) AS r(i)
"""
OLD_RESOURCES = """
INSERT INTO resource BY NAME SELECT
    i AS resource_id, MAP {'service.name': 'shop', 'service.version': '1.' || i, 'cpus': '8'} AS attributes,
    'ssi' AS attribute_types, CASE i WHEN 2 THEN 3 ELSE 0 END AS dropped_attributes_count, [] AS entity_refs,
    CASE i WHEN 1 THEN 'https://schema' ELSE '' END AS schema_url
FROM range(3) AS r(i)
"""
OLD_SCOPES = """
INSERT INTO "scope" BY NAME SELECT
    i AS scope_id, 'scope ' || i AS name, '2' AS version, MAP {} AS attributes, '' AS attribute_types,
    0 AS dropped_attributes_count, '' AS schema_url
FROM range(2) AS r(i)
"""
OLD_READINGS = """
INSERT INTO reading BY NAME SELECT
    seq, 'llm' AS span_type, 'input.value' AS input_key, 'an answer' AS "output",
    'input.messages' AS input_messages_key, 'm' || seq % 4 AS model, 5 AS input_tokens
FROM span WHERE span_id > printf('%016x', $unread)
"""
OLD_PARTS = """
INSERT INTO trace_part BY NAME SELECT
    tenant, trace_id, ('0x' || trace_id[17:])::UBIGINT AS trace_key, min(start_time) AS start_time,
    max(start_time) AS last_start_time, max(end_time) AS end_time, count(*) AS span_count, 0 AS error_count,
    min(name) AS first_name, TIMESTAMP '2027-11-21 10:00:00' AS expires_at, min(batch) AS batch
FROM span GROUP BY tenant, trace_id
"""
OLD_LOGS = """
INSERT INTO log_record BY NAME SELECT
    'acme' AS tenant, printf('%032x', 1) AS trace_id, printf('%016x', i + 1) AS span_id,
    make_timestamp_ns($start_ns) AS "time", make_timestamp_ns($start_ns) AS observed_time,
    make_timestamp_ns($start_ns) AS logged_at, 'gen_ai.user.message' AS event_name, 'said ' || i AS body,
    MAP {} AS attributes, 1 AS resource_id, 0 AS scope_id, i AS record_id, 1 AS batch
FROM range(5) AS r(i)
"""
OLD_TRACES = """
INSERT INTO trace_reading BY NAME SELECT tenant, trace_id, start_time, 'old' AS input, 0 AS tool_call_count
FROM trace_part WHERE trace_key % 7 > 0
"""
STATES = (
    "INSERT INTO trace_due SELECT tenant, trace_id FROM trace_part WHERE trace_key % 7 = 0",
    "UPDATE ingest_state SET batch = 3, stored = $spans",
    "UPDATE reading_state SET edition = 'old', seq = (4 << 20) - 1, log_batch = 3",
    "UPDATE matching_state SET seq = (4 << 20) - 1",
)


def an_older_file(directory: Path) -> None:
    """A file of the version before, with spans, most of them read."""
    with duckdb.connect(str(directory / FILE_NAME)) as old:
        old.execute("CREATE TABLE tracejury_schema (version INTEGER NOT NULL, name VARCHAR, applied_at TIMESTAMP)")
        for number, name, text in sql.migrations():
            if number < widening.FIRST_STEP:
                old.execute(text)
                old.execute("INSERT INTO tracejury_schema VALUES (?, ?, now()::TIMESTAMP)", [number, name])
        values = {"spans": SPANS, "start_ns": START_NS, "unread": UNREAD}
        for text in (OLD_SPANS, OLD_RESOURCES, OLD_SCOPES, OLD_READINGS, OLD_PARTS, OLD_LOGS, OLD_TRACES, *STATES):
            old.execute(text, {name: value for name, value in values.items() if f"${name}" in text})


WHOLE = """
SELECT count(*), count(DISTINCT span_id), count(DISTINCT seq), count(model), sum(input_tokens), count(duration_ms),
    count(*) FILTER (WHERE input = attributes['input.value']), count(*) FILTER (WHERE "output" = 'an answer'),
    count(*) FILTER (WHERE input_messages = '[{"role": "user"}]'),
    count(*) FILTER (WHERE resource_attributes['service.version'] = service_version), count(DISTINCT service_version),
    count(*) FILTER (WHERE resource_schema_url = 'https://schema'), count(DISTINCT scope_name)
FROM spans
"""
READ = SPANS - UNREAD
EXPECTED = (SPANS, SPANS, SPANS, READ, 5 * READ, SPANS - SPANS // 100, READ, READ, READ, SPANS, 3, SPANS // 3, 2)


def test_everything_is_moved(tmp_path: Path) -> None:
    """Each span keeps its number and what was read of it, with its resource and scope beside it; log records too."""
    an_older_file(tmp_path)
    with a_store(tmp_path) as store:
        assert rows(store, WHOLE) == [EXPECTED]
        logs = "SELECT count(*), min(resource_attributes['service.version']), min(scope_name) FROM logs"
        assert rows(store, logs) == [(5, "1.1", "scope 0")]
        trace = store.queries.trace(f"{1:032x}", tenant="acme")
        assert trace is not None
        (resource,) = {id(span.resource): span.resource for span in trace.spans[2:3]}.values()
        assert (dict(resource.attributes), resource.dropped_attributes_count) == (
            {"service.name": "shop", "service.version": "1.2", "cpus": 8},
            3,
        )
        names = rows(
            store, "SELECT table_name FROM duckdb_tables() WHERE table_name LIKE '%reading%' OR table_name = 'scope'"
        )
        assert names == [("trace_reading",)]
        commit(store, a_batch(an_export(1, trace=70_000, first=70_000)))
        assert rows(store, "SELECT count(*), max(seq >> 20) FROM spans") == [(SPANS + 1, 4)]


def test_what_was_moved_is_read_again_and_added_up(tmp_path: Path) -> None:
    """Rows of an older version are of an older edition; in time all are of this one, and every trace has its sum."""
    an_older_file(tmp_path)
    with a_store(tmp_path) as store, adding_up(store, reads=ConventionsReader(NO_KEYS)) as traces:
        assert traces.wait_idle(5 * WAIT_S)
        assert store.status.status(0).older_spans == 0
        assert rows(store, "SELECT count(*), count(tool_call_count) FROM traces") == [(SPANS // 10, SPANS // 10)]
        assert rows(store, "SELECT count(*) FROM traces WHERE input = 'old'") == [(0,)]
        assert rows(store, "SELECT count(*), count(DISTINCT seq) FROM span") == [(SPANS, SPANS)]


@pytest.mark.parametrize("pieces", [0, 1, 2, 5])
def test_a_start_that_is_cut_off_is_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pieces: int) -> None:
    """Whatever was moved before, the next start moves the rest, and nothing twice."""
    an_older_file(tmp_path)
    monkeypatch.setattr(widening, "_ROWS", 700)
    left = random.Random(pieces)
    next_piece, moved = widening._next_piece, 0

    def cut_off(*given: object) -> dict[str, int]:
        nonlocal moved
        if moved >= pieces:
            raise KeyboardInterrupt(left.random())
        moved += 1
        return next_piece(*given)  # type: ignore[arg-type] # as they came

    with monkeypatch.context() as cut:
        cut.setattr(widening, "_next_piece", cut_off)
        with pytest.raises(KeyboardInterrupt):
            Store.open(tmp_path)
    with a_store(tmp_path) as store:
        assert rows(store, WHOLE) == [EXPECTED]
