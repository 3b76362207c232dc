"""A data directory with many spans, filled by SQL alone, which takes 70 to 100 µs a span.

Texts are stored as they are, so that they can be searched for in the bytes of the file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import duckdb

from collector.reading.spans import ConventionsReader, edition_of
from collector.settings import Settings
from storage.engine.database import CATALOG, ROW_GROUP_ROWS, Database, DatabaseOptions

SPANS_A_TRACE: Final = 8

_INCOMING: Final = """
CREATE OR REPLACE TEMP TABLE incoming AS
SELECT
    $first + i AS number,
    md5((($first + i) // $spans)::VARCHAR) AS trace_id,
    substr(md5(($first + i)::VARCHAR || 's'), 1, 16) AS span_id,
    printf('marker-of-%04d', (($first + i) // $spans) % $users) AS marker,
    (($first + i) // $spans) % $users AS user,
    ($batch::BIGINT << 20) + i AS seq,
    make_timestamp_ns(1763700000000000000 + ($first + i) * 1000000) AS start_time
FROM range($rows) AS r(i)
"""

_TABLES: Final = {
    "span": """
        SELECT '' AS tenant, trace_id, span_id, marker || ' does' AS "name", 1 AS kind, start_time,
            CASE WHEN number % $spans > 0 THEN substr(md5((number // $spans * $spans)::VARCHAR || 's'), 1, 16) END
                AS parent_span_id,
            start_time + INTERVAL 1 MILLISECOND AS end_time, 1 AS status_code, marker AS status_message,
            MAP {'user.id': marker, 'gen_ai.request.model': 'gpt-' || number % 5,
                 'input.value': marker || ' asks ' || repeat(md5(random()::VARCHAR), $text // 64),
                 'output.value': marker || ' hears ' || repeat(md5(random()::VARCHAR), $text // 64)} AS attributes,
            'ssss' AS attribute_types,
            'shop' AS project, 'shop' AS service_name, now()::TIMESTAMP AS received_at, $batch AS batch, seq,
            to_json(MAP {'service.name': 'shop', 'owner': marker || ' owns'})::VARCHAR AS resource_attributes,
            'llm' AS span_type, marker AS user_id, marker || ' asks' AS input,
            marker || ' hears' AS "output", marker || ' sums up' AS notes, 10 AS input_tokens, 1 AS edition
        FROM incoming ORDER BY seq""",
    "decision": "SELECT 1 AS revision, seq, 0 AS outcome, now()::TIMESTAMP AS decided_at FROM incoming ORDER BY seq",
    "trace_part": """
        SELECT '' AS tenant, trace_id, ('0x' || trace_id[17:])::UBIGINT AS trace_key, min(start_time) AS start_time,
            max(start_time) AS last_start_time, max(start_time) AS end_time, count(*) AS span_count, 0 AS error_count,
            any_value(marker) AS first_name, 'shop' AS first_project, min(start_time) AS root_start_time,
            any_value(marker) AS root_name, 'shop' AS root_project,
            now()::TIMESTAMP + INTERVAL 30 DAY AS expires_at, $batch AS batch
        FROM incoming GROUP BY trace_id""",
    "trace_reading": """
        SELECT '' AS tenant, trace_id, min(start_time) AS start_time, any_value(marker) || ' asks' AS input,
            any_value(marker) AS user_id, 1 AS tool_call_count, count(*) AS span_count, 1 AS edition,
            ('0x' || trace_id[17:])::UBIGINT AS trace_key, any_value(marker) AS root_name, 'shop' AS project,
            max(start_time) AS last_start_time, max(start_time) AS end_time, count(*) AS stored_span_count,
            0 AS error_count, now()::TIMESTAMP + INTERVAL 30 DAY AS expires_at
        FROM incoming GROUP BY trace_id""",
    "tool_call": """
        SELECT '' AS tenant, trace_id, span_id, 0 AS ordinal, 'search' AS "name", marker || ' looks' AS arguments,
            false AS is_error, start_time
        FROM incoming WHERE number % $spans = 1""",
    "log_record": """
        SELECT '' AS tenant, trace_id, span_id, start_time AS "time", start_time AS observed_time,
            start_time AS logged_at, 'gen_ai.user.message' AS event_name, marker || ' says' AS body,
            hash(span_id) AS record_id, now()::TIMESTAMP AS received_at,
            $batch AS batch
        FROM incoming WHERE number % $spans = 2""",
}


def as_served() -> ConventionsReader:
    """Return a reader like a server's at default settings: it reads the spans of others again while measuring."""
    return ConventionsReader(Settings().own_keys)


def fill(directory: Path, spans: int, *, users: int, text: int) -> int:
    """Store about `spans` spans, whose traces belong to users by turns; return their number."""
    directory.mkdir(parents=True, exist_ok=True)
    database = Database(directory, DatabaseOptions(memory_limit="1GB", threads=2))
    commits = -(-spans // ROW_GROUP_ROWS)
    with database.cursor() as cursor:
        cursor.execute("SET force_compression = 'uncompressed'")
        for batch in range(1, commits + 1):
            _commit(cursor, batch, users=users, text=text)
        last_seq = (commits << 20) + ROW_GROUP_ROWS - 1
        for statement in (
            "UPDATE ingest_state SET batch = $commits, stored = $commits * $rows",
            "INSERT INTO edition VALUES (1, $edition, now()::TIMESTAMP)",
            "UPDATE trace_state SET batch = $commits",
            "UPDATE matching_state SET seq = $seq",
        ):
            parameters = {
                "commits": commits,
                "rows": ROW_GROUP_ROWS,
                "seq": last_seq,
                "edition": edition_of(Settings().own_keys),
            }
            cursor.execute(statement, {name: value for name, value in parameters.items() if f"${name}" in statement})
        cursor.execute(f"CHECKPOINT {CATALOG}")
    database.close()
    return commits * ROW_GROUP_ROWS


def _commit(cursor: duckdb.DuckDBPyConnection, batch: int, *, users: int, text: int) -> None:
    """Commit as the writer does, with the steps that follow."""
    parameters = {
        "first": (batch - 1) * ROW_GROUP_ROWS,
        "rows": ROW_GROUP_ROWS,
        "spans": SPANS_A_TRACE,
        "users": users,
        "text": text,
        "batch": batch,
    }
    cursor.begin()
    for statement in (_INCOMING, *(f"INSERT INTO {table} BY NAME {select}" for table, select in _TABLES.items())):
        cursor.execute(statement, {name: value for name, value in parameters.items() if f"${name}" in statement})
    cursor.commit()
