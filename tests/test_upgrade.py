"""Data of each released version opens, is migrated to this version, and is kept; its open work is finished."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import duckdb
import pytest

from collector.app import Running
from storage.engine.database import CATALOG, FILE_NAME, Database, DatabaseOptions
from storage.engine.migration import MARK
from tests.alerting import ENCRYPTION_KEY
from tests.live import Live, until
from tests.release_fixture import DATA, EXPECTED, RELEASES, unpack, write_fixture
from tests.serving import a_server
from tests.storing import rows

FIXTURES = sorted(RELEASES.glob("*.tar.xz"))
IDS = [file.name.removesuffix(".tar.xz") for file in FIXTURES]
SETTINGS: Final[Mapping[str, Any]] = {
    "encryption_key": ENCRYPTION_KEY,
    "webhook_private_hosts": ["127.0.0.0/8"],
    "settle_after_root_seconds": 0.2,
    "sweep_interval_seconds": 86_400,
}
NAMES = f"SELECT table_name FROM duckdb_tables() WHERE database_name = '{CATALOG}' AND NOT internal ORDER BY 1"
VIEWS = f"SELECT view_name FROM duckdb_views() WHERE database_name = '{CATALOG}' AND NOT internal ORDER BY 1"
NUMBERED = """
SELECT table_name FROM duckdb_columns() SEMI JOIN duckdb_tables() USING (database_name, table_name)
WHERE column_name = 'write_number'
"""
SCHEMA = [
    f"SELECT {columns} FROM {catalog}() WHERE database_name = '{CATALOG}' ORDER BY ALL"
    for catalog, columns in {
        "duckdb_tables": "table_name, sql",
        "duckdb_columns": "table_name, column_index, column_name, data_type, column_default, is_nullable",
        "duckdb_constraints": "table_name, constraint_type, constraint_text",
        "duckdb_indexes": "table_name, index_name, sql",
    }.items()
]
OPEN = """
SELECT
    (SELECT count(*) FROM job) AS jobs,
    (SELECT count(*) FROM trace_open) + (SELECT count(*) FROM session_open) AS unsettled,
    (SELECT seq FROM matching_state) < (SELECT max(seq) FROM span) AS unmatched,
    (SELECT batch FROM trace_state) < (SELECT batch FROM ingest_state) AS not_added_up,
    (SELECT count(*) FROM deletion WHERE state <> 'done') AS deletions
"""
UNDECIDED = """
SELECT r.rule, s.trace_id, s.span_id FROM span AS s, rule_revision AS r
WHERE r.target = 'SPAN' AND s.tenant = r.tenant AND r.revision IN (SELECT revision FROM rule)
    AND NOT EXISTS (SELECT 1 FROM decision AS d WHERE d.revision = r.revision AND d.seq = s.seq)
    AND s.seq > (SELECT min(d.seq) FROM decision AS d WHERE d.revision = r.revision)
"""
_MANY = """
INSERT INTO span BY NAME
SELECT s.* REPLACE (md5(s.span_id || i)[:16] AS span_id, s.seq - i * 1000 AS seq, make_timestamp_ns(-5) AS start_time)
FROM (FROM span LIMIT 1) AS s, range(1, $more + 1) AS r(i)
"""
"""Copies of a span, each with a time that a step of the schema changes: a second or two of work."""
KEPT = {  # what work after the upgrade adds to, and never changes
    "decision": "revision, seq, outcome, clause",
    "evaluation": "* EXCLUDE (counted)",
    "annotation": "*",
    "alert": "tenant, alert_id, episode, evidence, document",
    "judge_call": "COLUMNS(c -> c <> 'write_number')",
    "run_score": "*",
    "dataset_item": "*",
}


@pytest.fixture(params=FIXTURES, ids=IDS)
def release(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return the directory with what a release wrote."""
    unpack(request.param, tmp_path)
    return tmp_path


@contextmanager
def raw(data: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield the database as DuckDB has it, whatever version wrote it."""
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{data / FILE_NAME}' AS {CATALOG} (READ_ONLY); USE {CATALOG}; SET TimeZone = 'UTC'")
        yield connection


def relations(connection: duckdb.DuckDBPyConnection, of: str) -> dict[str, list[str]]:
    """Return the columns of each table, or view."""
    names = [name for (name,) in connection.execute(of).fetchall() if name != MARK]
    return {name: [column[0] for column in connection.execute(f'DESCRIBE "{name}"').fetchall()] for name in names}


def content(connection: duckdb.DuckDBPyConnection, name: str, columns: str, where: str = "true") -> Counter[Any]:
    """Return the rows of a table or view, as texts."""
    select = f'SELECT hash(COLUMNS(c -> true))::VARCHAR FROM (SELECT {columns} FROM "{name}" WHERE {where})'
    return Counter(connection.execute(select).fetchall())


@pytest.mark.parametrize("of", [NAMES, VIEWS], ids=["tables", "views"])
def test_the_steps_of_the_schema_keep_every_row(release: Path, of: str) -> None:
    """Each row of each table has the values that it had, and so has each view that dashboards read."""
    with raw(release / DATA) as before:
        columns = relations(before, of)
        lists = {name: ", ".join(f'"{column}"' for column in each) for name, each in columns.items()}
        rows_before = {name: content(before, name, lists[name]) for name in columns}
    assert of == VIEWS or all(rows_before.values())
    database = Database(release / DATA, DatabaseOptions())
    with database.cursor() as cursor:
        assert {name: content(cursor, name, lists[name]) for name in columns} == rows_before
    database.close()


def test_calls_of_deleted_traces_leave_with_the_upgrade(release: Path) -> None:
    """Releases kept tool calls that deleted traces requested; a migration deletes those of missing traces."""
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{release / DATA / FILE_NAME}' AS {CATALOG}; USE {CATALOG}")
        connection.execute("INSERT INTO tool_call BY NAME SELECT * REPLACE ('gone' AS trace_id) FROM tool_call")
    database = Database(release / DATA, DatabaseOptions())
    with database.cursor() as cursor:
        assert cursor.execute("SELECT count(*) FILTER (trace_id = 'gone'), count(*) > 0 FROM tool_call").fetchall() == [
            (0, True)
        ]
    database.close()


def test_stored_rows_are_numbered_by_the_upgrade(release: Path) -> None:
    """Rows of releases without numbers of writes get distinct ones, below that of the next write."""
    database = Database(release / DATA, DatabaseOptions())
    with database.cursor() as cursor:
        tables = [name for (name,) in cursor.execute(NUMBERED).fetchall()]
        every = " UNION ALL ".join(f"SELECT write_number FROM {table}" for table in tables)
        counts = f"SELECT count(*) > 0, count(*) = count(DISTINCT write_number), max(write_number) FROM ({every})"
        ((has_rows, are_distinct, last),) = cursor.execute(counts).fetchall()
        cursor.execute("INSERT INTO superseded (job_id, superseded_at) VALUES (-1, now()::TIMESTAMP)")
        ((new,),) = cursor.execute("SELECT write_number FROM superseded WHERE job_id = -1").fetchall()
    database.close()
    assert (len(tables), has_rows, are_distinct) == (10, True, True)
    assert new > last


def test_an_upgraded_file_has_the_schema_of_a_new_one(release: Path, tmp_path: Path) -> None:
    """Tables, columns in their order, types, defaults and constraints are alike, whichever steps made them."""
    schemas = []
    for directory in (release / DATA, tmp_path / "new"):
        directory.mkdir(exist_ok=True)
        Database(directory, DatabaseOptions()).close()
        with raw(directory) as connection:
            schemas.append([connection.execute(statement).fetchall() for statement in SCHEMA])
    assert schemas[0] == schemas[1]


def test_sigterm_during_a_schema_step_ends_the_server_and_the_next_start_goes_on(release: Path) -> None:
    """The process ends with 0 in the middle of the step, nothing of which is kept; the next start does all of it."""
    data, more = release / DATA, 60_000
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{data / FILE_NAME}' AS {CATALOG}; USE {CATALOG}")
        connection.execute(_MANY, {"more": more})
    with Live(data, new=True) as server:
        until(lambda: server.log, lambda log: "schema step 51 (known_times) begins" in log)
        assert server.stop(within_s=10) == 0
        assert "stopped during startup" in server.log
        assert "is done" not in server.log
    with Live(data, new=True) as server:
        server.wait_ready()
        assert "schema step 51 (known_times) is done" in server.log
        assert server.stop() == 0
    with raw(data) as after:
        known = "SELECT count(*) FROM span WHERE start_time = make_timestamp_ns(0)"
        assert after.execute(known).fetchall() == [(more,)]


def test_open_work_is_done_after_the_upgrade(release: Path) -> None:
    """Spans in the spool, unmatched spans, unsettled traces, waiting jobs and deletions end as without an upgrade."""
    expected = json.loads((release / EXPECTED).read_text())
    deleted = ", ".join(f"'{trace_id}'" for trace_id in expected["deleted"])
    with raw(release / DATA) as before:
        lost = f"tenant = '' AND trace_id IN ({deleted})"
        ours = {"evaluation": f"NOT ({lost})", "decision": f"seq NOT IN (SELECT seq FROM span WHERE {lost})"}
        kept = {name: content(before, name, columns, ours.get(name, "true")) for name, columns in KEPT.items()}
        ((stored, spans),) = before.execute(
            "SELECT stored, (SELECT count(*) FROM span WHERE NOT (" + lost + ")) FROM ingest_state"
        ).fetchall()
        assert before.execute(OPEN).fetchall() != [(0, 0, False, False, 0)]
    with a_server(release / DATA, **SETTINGS) as server:
        until(partial(rows, server.store, OPEN), lambda counts: counts == [(0, 0, False, False, 0)], within_s=120)
        until(lambda: server.store.status.status(0).older_spans, lambda older: older == 0)
        check_judged(server, expected["judged"])
        ((now_stored, now_spans),) = rows(server.store, "SELECT stored, (SELECT count(*) FROM span) FROM ingest_state")
        assert (now_stored - stored, now_spans - spans) == (3, 3)  # those of the spool
        assert rows(server.store, UNDECIDED) == []
        assert rows(server.store, f"SELECT count(*) FROM span WHERE {lost}") == [(0,)]
        assert rows(server.store, "SELECT sum(stored_span_count) FROM trace_reading") == [(now_spans,)]
        with server.store._database.cursor() as cursor:
            for name, columns in KEPT.items():
                assert kept[name] <= content(cursor, name, columns), name


def check_judged(server: Running, expected: list[dict[str, str]]) -> None:
    """Check that each open job, also if not yet queued, has one score."""
    scored = "SELECT tenant, trace_id, rule, count(*) FROM evaluations WHERE outcome = 'scored' GROUP BY ALL"
    judged = Counter({row[:3]: row[3] for row in rows(server.store, scored)})
    for one in expected:
        assert judged[one["tenant"], one["trace_id"], one["rule"]] == 1, one


def test_the_fixture_of_the_next_release_can_be_written(tmp_path: Path) -> None:
    """The script that writes it leaves no table of this version's schema without a row."""
    write_fixture(tmp_path / "next.tar.xz")
    assert (tmp_path / "next.tar.xz").stat().st_size < 1 << 20
