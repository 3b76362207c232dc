"""The DuckDB catalog `lake`, whose tables have the rows of the database and of the lake, under the same names.

Hot rows are those in the database, cold rows those in the lake alone. A cursor that has chosen files
(`storage.lake.reading`) and uses this catalog reads both with any statement.
"""

from pathlib import Path
from typing import Final, cast

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from duckdb.sqltypes import DuckDBPyType

from storage import sql
from storage.engine.arrow import arrow_table
from storage.engine.database import CATALOG, LAKE_CATALOG
from storage.engine.opening import extension
from storage.lake.tables import DIRECTORY, JOB_RESULTS, LAKE_TABLES, delta_schema

_S3: Final = "s3://"

COLD_TABLES: Final = (
    "trace_part",
    *(table.name for table in LAKE_TABLES if table.moves and table.name != "trace_part"),
    JOB_RESULTS,
)
"""Tables that may have rows in the lake alone. A table comes after the tables through which its rows are found."""

HOT_VIEWS: Final = frozenset({"changed_trace", "changed_part", "evaluation_by_day", "evaluation_days"})
"""Views without cold rows: changes by the latest commits, which have not moved yet, and daily sums of results, which
stay in the database when the results move."""


def attach(connection: duckdb.DuckDBPyConnection, uri: str, folder: Path, endpoint: str | None = None) -> None:
    """Attach the catalog in memory, and let DuckDB read the files of the lake; nothing of the lake is read.

    `folder` receives a file without rows for each table, since a list of files must not be empty. `endpoint` is the URL
    of an object store.

    Raises:
        Unusable: the lake is in an object store, and the extension that reads those is not installed.
    """
    (folder := folder.absolute()).mkdir(mode=0o700, parents=True, exist_ok=True)
    connection.execute(f"ATTACH ':memory:' AS {LAKE_CATALOG}")
    connection.execute(f"CREATE SCHEMA {LAKE_CATALOG}.alone")  # for views of the rows that are not in the database
    parameters: dict[str, str | int] = {"batch": 0, "seq": 0, "until": 0}
    for table in COLD_TABLES:
        parameters[table] = str(write_empty(connection, table, folder))
    connection.execute(sql.query("choose_files"), parameters)
    for table, statement in _cold_rows().items():
        connection.execute(_with_columns(connection, table, statement))
        connection.execute(sql.query("hot_and_cold_rows").replace("$table", table))
    views = dict(sql.views())
    tables = connection.execute(sql.query("names_of_tables"), {"catalog": CATALOG}).fetchall()
    for name in {name for (name,) in tables} - set(COLD_TABLES) | HOT_VIEWS:
        connection.execute(sql.query("hot_rows").replace("$table", name))
    connection.execute(f"USE {LAKE_CATALOG}")
    for name, text in views.items():
        if name == "trace_totals":
            cold = totals_of_readings().replace("FROM trace_reading", "FROM alone.trace_reading")
            connection.execute(f"CREATE VIEW {name} AS FROM {CATALOG}.main.{name} UNION ALL {cold}")
        elif name not in HOT_VIEWS:
            connection.execute(text)
    connection.execute(f"USE {CATALOG}")
    connection.execute("RESET VARIABLE lake")
    if uri.startswith(_S3):
        _reach_store(connection, endpoint)
    connection.execute(f"SET allowed_directories = [{_text(uri.rstrip('/') + '/')}, {_text(f'{folder}/')}]")


def _reach_store(connection: duckdb.DuckDBPyConnection, endpoint: str | None) -> None:
    # The extension takes credentials and region from the environment, as delta-rs does, but not the endpoint.
    connection.execute(f"LOAD {_text(str(extension('httpfs', 'lake')))}")
    connection.execute("SET GLOBAL allow_persistent_secrets = false")
    connection.execute("FROM duckdb_secrets()")  # reads the folder of secrets, which fails once access is closed
    connection.execute("SET GLOBAL enable_http_metadata_cache = true")  # no file of the lake ever changes
    connection.execute("SET GLOBAL parquet_metadata_cache = true")
    if endpoint is not None:
        scheme, _, host = endpoint.rpartition("://")
        connection.execute(f"SET GLOBAL s3_endpoint = {_text(host.rstrip('/'))}")
        connection.execute("SET GLOBAL s3_url_style = 'path'")
        connection.execute(f"SET GLOBAL s3_use_ssl = {scheme != 'http'}")


def totals_of_readings() -> str:
    """Return the part of the view `trace_totals` that reads stored sums; for moved traces it is the whole view."""
    select, _, _ = sql.select_of("trace_totals").partition("\nANTI JOIN changed_trace")
    return select


def write_empty(connection: duckdb.DuckDBPyConnection, table: str, folder: Path) -> Path:
    """Write a file without rows, with the columns that a table has in the lake; return its path."""
    schema = delta_schema(arrow_table(connection, f"FROM {CATALOG}.{table} LIMIT 0").schema)
    pq.write_table(pa.Table.from_batches([], schema=schema), path := folder / f"{table}.parquet")
    return path


def _cold_rows() -> dict[str, str]:
    return {
        "trace_part": sql.query("cold_trace_part"),
        "span": sql.query("cold_span"),
        "log_record": sql.query("cold_log_record"),
        "trace_reading": sql.query("cold_trace_reading"),
        "tool_call": sql.query("cold_tool_call"),
        "evaluation": sql.query("cold_evaluation"),
        "decision": sql.query("cold_decision"),
        "superseded": sql.query("cold_superseded"),
        JOB_RESULTS: sql.query("cold_backfill_result"),
    }


def _with_columns(connection: duckdb.DuckDBPyConnection, table: str, statement: str) -> str:
    rows = connection.sql(f"FROM {CATALOG}.{table} LIMIT 0")
    columns = {name: restored(f'l."{name}"', kind) for name, kind in zip(rows.columns, rows.types, strict=True)}
    selected = ", ".join([*(f'{value} AS "{name}"' for name, value in columns.items()), f"l.{DIRECTORY}"])
    key = columns.get("trace_key", "")
    statement = statement.replace("$columns", selected).replace("$trace_key", key)
    return statement.replace("$key_of_later", key.replace("l.", "r."))


def restored(value: str, kind: DuckDBPyType, depth: int = 0) -> str:
    """Return the SQL expression that converts a value of the lake to the database's type; reverses `delta_rows`."""
    members = cast("list[tuple[str, DuckDBPyType]]", kind.children) if kind.id in {"list", "struct"} else []
    match kind.id:
        case "timestamp_ns":
            return f"make_timestamp_ns({value})"
        case "timestamp":
            return f"timezone('UTC', {value})"
        case "utinyint" | "usmallint" | "uinteger":
            return f"{value}::{kind}"
        case "ubigint":
            return f"if({value} < 0, {value}::HUGEINT + 18446744073709551616, {value})::UBIGINT"
        case "list":
            ((_, member),), each = members, f"e{depth}"
            inner = restored(each, member, depth + 1)
            return value if inner == each else f"list_transform({value}, lambda {each}: {inner})"
        case "struct":
            fields = {name: restored(f'{value}."{name}"', member, depth) for name, member in members}
            if all(restoring == f'{value}."{name}"' for name, restoring in fields.items()):
                return value
            packed = ", ".join(f'"{name}" := {restoring}' for name, restoring in fields.items())
            return f"CASE WHEN {value} IS NOT NULL THEN struct_pack({packed}) END"
        case _:
            return value


def _text(text: str) -> str:
    escaped = text.replace("'", "''")
    return f"'{escaped}'"
