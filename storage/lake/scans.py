"""Conditions of a statement on each table, as DuckDB's query plan pushes them down into table scans.

The plan is made in a separate DuckDB instance with empty tables, so that its cost does not depend on the stored data.
"""

import datetime as dt
import functools
import json
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import duckdb
import pyarrow as pa

from storage import sql
from storage.engine.database import CATALOG
from storage.engine.opening import open_duckdb
from storage.lake.catalog import COLD_TABLES, HOT_VIEWS, totals_of_readings
from storage.lake.cold_files import LEAST, MOST

_NOT_THESE: Final = "statistics_propagation,empty_result_pullup,late_materialization,join_order"
"""Optimizers that are off, because they drop scans of empty tables or scan a table twice."""

_NUMBER: Final = r"-?\d+|'[\d .:+-]+'::(?:TIMESTAMP_NS|TIMESTAMP|TIMESTAMP WITH TIME ZONE|DATE)"
_CONDITION: Final = re.compile(rf"\b(\w++)(>=|<=|>|<|=)({_NUMBER})")
_CONDITIONS: Final = re.compile(rf"{_CONDITION.pattern}(?: AND {_CONDITION.pattern})*")
_ID: Final = "'[0-9a-f]{32}'"
_IDS: Final = re.compile(rf"trace_id={_ID}|(?:optional: )?trace_id IN \(?{_ID}(?:, {_ID})*\)?")
_OPTIONAL: Final = " AND optional: "  # precedes conditions that are only known at execution
_COMPARISON: Final = re.compile(rf"\((\w++) (>=|<=|>|<|=) ({_NUMBER}|{_ID})\)")
_BRACKETS: Final = re.compile(r"(?<!\w)\(|\)")  # not those of function calls
_WORDS: Final = re.compile(r"\w+")
_EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - times of the database have no zone


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """A scan of a table: rows outside the bounds, or of other traces, do not change the answer."""

    table: str
    bounds: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    trace_ids: frozenset[str] | None = None  # None: any trace


def scans_of(
    statement: str, parameters: Mapping[str, Any] | None, registered: Mapping[str, pa.Schema] | None = None
) -> list[Scan]:
    """Return a statement's scans of tables that have rows in the lake.

    If the statement cannot be planned, return a scan without bounds for each table that it may read.
    """
    if not names_cold(statement):
        return []
    with _lock:
        connection = _empty()
    with connection.cursor() as cursor:
        cursor.execute(f"USE {CATALOG}")
        for name, schema in (registered or {}).items():
            cursor.register(name, schema.empty_table())
        try:
            ((_, plan),) = cursor.execute(f"EXPLAIN (FORMAT json) {statement}", parameters or None).fetchall()
        except duckdb.Error:  # no plan: read all files of the tables
            words = set(_WORDS.findall(statement.lower()))
            return [Scan(table=table) for table in (COLD_TABLES if words & _views() else words & {*COLD_TABLES})]
    return [_scan(table, node["extra_info"].get("Filters", [])) for table, node in _scanning(json.loads(plan))]


@functools.lru_cache(1024)
def names_cold(statement: str) -> bool:
    """Return True if a text has the name of a table or view with rows in the lake."""
    return bool(set(_WORDS.findall(statement.lower())) & (_views() | {*COLD_TABLES}))


@functools.cache
def _views() -> frozenset[str]:
    return frozenset(name for name, _ in sql.views()) - HOT_VIEWS


def _scanning(nodes: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    for node in nodes:
        table = str(node["extra_info"].get("Table", "")).removeprefix(f"{CATALOG}.main.")
        if table in COLD_TABLES:
            yield table, node
        yield from _scanning(node.get("children", []))


def _scan(table: str, filters: str | list[str]) -> Scan:
    bounds: dict[str, tuple[int, int]] = {}
    ids: frozenset[str] | None = None
    for text in map(_bare, [filters] if isinstance(filters, str) else filters):
        if _IDS.fullmatch(text):
            some = frozenset(re.findall(r"[0-9a-f]{32}", text))
            ids = some if ids is None else ids & some
        elif _CONDITIONS.fullmatch(certain := text.partition(_OPTIONAL)[0]):
            for column, operator, value in _CONDITION.findall(certain):
                number = _number(value)
                least, most = bounds.get(column, (LEAST, MOST))
                if operator in {">=", ">", "="}:
                    least = max(least, number)
                if operator in {"<=", "<", "="}:
                    most = min(most, number)
                bounds[column] = least, most
    return Scan(table=table, bounds=bounds, trace_ids=ids)


def _bare(text: str) -> str:
    # DuckDB 2 writes `((a >= 1) AND (a <= 2))` for `a>=1 AND a<=2` of DuckDB 1.
    return text if " OR " in text else _BRACKETS.sub("", _COMPARISON.sub(r"\1\2\3", text))


def _number(value: str) -> int:
    """Convert a constant of a plan to the lake's number; a time outside of Python's range becomes LEAST or MOST."""
    if not value.startswith("'"):
        return int(value)
    text, _, kind = value[1:].partition("'::")
    whole, _, fraction = text.split("+")[0].partition(".")
    try:
        since = dt.datetime.fromisoformat(whole) - _EPOCH
    except ValueError:
        return MOST if whole[:1] != "-" else LEAST
    seconds: int = since // dt.timedelta(seconds=1)
    if kind == "DATE":
        return seconds // 86_400
    digits = 9 if kind == "TIMESTAMP_NS" else 6
    return seconds * int(10**digits) + int(fraction.ljust(digits, "0")[:digits] or 0)


_lock: Final = threading.Lock()


@functools.cache
def _empty() -> duckdb.DuckDBPyConnection:
    connection = open_duckdb({"threads": 1, "temp_directory": "", "python_enable_replacements": False})
    connection.execute(f"ATTACH ':memory:' AS {CATALOG}")
    connection.execute(f"USE {CATALOG}")
    for _, _, step in sql.migrations():
        connection.execute(step)
    for name, text in sql.views():
        connection.execute(text)
        if name in HOT_VIEWS:
            connection.execute(f"CREATE TABLE kept AS FROM {name} LIMIT 0")
            connection.execute(f"DROP VIEW {name}")
            connection.execute(f"ALTER TABLE kept RENAME TO {name}")
        elif name == "trace_totals":
            connection.execute(f"CREATE OR REPLACE VIEW {name} AS {totals_of_readings()}")
    connection.execute(f"SET disabled_optimizers = '{_NOT_THESE}'")
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    connection.execute("SET enable_external_access = false")
    return connection
