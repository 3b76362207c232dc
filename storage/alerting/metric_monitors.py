"""Metric monitors in the store: their documents, current values of metrics, and results of the last check."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

import duckdb

from storage import sql
from storage.alerting.monitors import Happening, store_happening
from storage.alerting.outbox import Outbox
from storage.engine.database import Database
from storage.engine.row_cache import RowCache
from storage.ingest.writer import Writer
from storage.records import JsonValue
from storage.sql import dict_rows
from storage.versioned import VersionedRecords

NumbersStatement: TypeAlias = Literal[
    "metric_of_spans", "metric_of_traces", "metric_of_failed_traces", "metric_of_judgements", "metric_of_matches"
]
OutcomesStatement: TypeAlias = Literal["outcomes_of_spans", "outcomes_of_traces", "outcomes_of_judgements"]

MOST_MONITORS: Final = 200
"""Maximum number of monitors of one tenant. A guess: each is checked every few seconds, and the cost of a check has not
been measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricMonitorRow:
    """A monitor of a metric. `document` and `state` are JSON."""

    tenant: str
    monitor_id: str
    name: str
    document: str
    version: int
    is_deleted: bool
    state: str | None  # None before the first look
    alert_id: str | None  # of the alert that is not over
    created_us: int
    updated_us: int
    looked_us: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricNumbers:
    """A metric in one window: total count, failed count, and an amount."""

    count: int
    failed: int
    amount: float | None


class Outcome(NamedTuple):
    """Outcome of one span or judgement. `last` is the highest number in the window, which may not be in the sample."""

    number: int
    passed: bool
    release: str | None
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricLook:
    """Result of one check of a monitor, stored with its events in one transaction."""

    row: MetricMonitorRow
    state: str
    alert_id: str | None
    happened: Sequence[Happening]
    at_ns: int


class MetricMonitors:
    """The monitors of metrics of a store. Safe to use from any thread but the writer's."""

    def __init__(self, database: Database, writer: Writer, outbox: Outbox) -> None:
        self._database = database
        self._writer = writer
        self._records = VersionedRecords(writer=writer, kind="metric monitor", most=MOST_MONITORS)
        self._outbox = outbox
        self._all = RowCache(database, sql.query("metric_monitors"))

    def all(self, *, tenant: str | None = None, deleted: bool = False) -> list[MetricMonitorRow]:
        """Return a tenant's and shared monitors (None: all) by name; `deleted` adds deleted ones with open alerts."""
        return self._find(tenant=tenant, deleted=deleted)

    def watched(self) -> list[MetricMonitorRow]:
        """Return all monitors, and deleted ones whose alert is still open."""
        rows = self._all.named({"tenant": None, "monitor_id": None, "deleted": True})
        return [MetricMonitorRow(**row) for row in rows]

    def get(self, monitor_id: str, *, tenant: str | None = None) -> MetricMonitorRow | None:
        """Return a metric monitor, or None if there is none or it was deleted."""
        rows = self._find(tenant=tenant, monitor_id=monitor_id)
        return rows[0] if rows else None

    def create(self, monitor_id: str, name: str, document: Mapping[str, JsonValue], at_ns: int, *, tenant: str) -> None:
        """Add a metric monitor.

        Raises:
            Conflict: the tenant has a monitor of that name, or has `MOST_MONITORS`.
            Overloaded: the database cannot be written now.
        """
        values = {"monitor_id": monitor_id, "tenant": tenant, "document": json.dumps(document), "at_us": at_ns // 1000}
        self._records.create(sql.query("insert_metric_monitor"), name, values)

    def replace(self, row: MetricMonitorRow, name: str, document: Mapping[str, JsonValue], at_ns: int) -> None:
        """Replace the document of a monitor, if it was not changed since it was read.

        Raises:
            Conflict: the monitor was changed meanwhile, or another one has that name.
            Overloaded: the database cannot be written now.
        """
        values = {"monitor_id": row.monitor_id, "tenant": row.tenant, "version": row.version, "at_us": at_ns // 1000}
        self._records.replace(sql.query("update_metric_monitor"), name, values | {"document": json.dumps(document)})

    def delete(self, row: MetricMonitorRow, at_ns: int) -> None:
        """Delete a monitor if its version is still that of `row`.

        Raises:
            Conflict: the monitor was changed since it was read.
            Overloaded: the database cannot be written now.
        """
        values = {"monitor_id": row.monitor_id, "version": row.version, "at_us": at_ns // 1000}
        self._records.delete(sql.query("delete_metric_monitor"), values)

    def numbers(self, statement: NumbersStatement, values: Mapping[str, object]) -> MetricNumbers:
        """Run a statement `metric_of_…`."""
        with self._database.cursor() as cursor:
            text = _numbers()[statement]
            cursor.execute(text, _used(text, values))
            (row,) = dict_rows(cursor)
        return MetricNumbers(**row)

    def outcomes(self, statement: OutcomesStatement, values: Mapping[str, object]) -> list[Outcome]:
        """Run a statement `outcomes_of_…`."""
        with self._database.cursor() as cursor:
            text = _outcomes()[statement]
            return [Outcome(*row) for row in cursor.execute(text, _used(text, values)).fetchall()]

    def worst(self, values: Mapping[str, object]) -> list[dict[str, JsonValue]]:
        """Return the worst spans that a metric selects, as examples of an alert."""
        with self._database.cursor() as cursor:
            text = sql.query("worst_of_metric")
            rows = cursor.execute(text, _used(text, values)).fetchall()
        return [
            {
                "traceId": trace_id,
                "spanId": span_id,
                "score": None,
                "reason": error or (None if duration_ms is None else f"took {duration_ms:.6g} ms"),
            }
            for trace_id, span_id, duration_ms, error in rows
        ]

    def store(self, looks: Sequence[MetricLook]) -> None:
        """Store the results and events of checks in one transaction, except for monitors changed meanwhile.

        Raises:
            Overloaded: the results may or may not be stored.
        """

        def write(cursor: duckdb.DuckDBPyConnection) -> None:
            for look in looks:
                _store(cursor, look)

        self._writer.store(write, len(looks))
        if any(look.happened for look in looks):
            self._outbox.changed()

    def _find(self, **filters: object) -> list[MetricMonitorRow]:
        values = {"tenant": None, "monitor_id": None, "deleted": False} | filters
        with self._database.cursor() as cursor:
            cursor.execute(sql.query("metric_monitors"), values)
            return [MetricMonitorRow(**row) for row in dict_rows(cursor)]


def _numbers() -> dict[NumbersStatement, str]:
    return {
        "metric_of_spans": sql.query("metric_of_spans"),
        "metric_of_traces": sql.query("metric_of_traces"),
        "metric_of_failed_traces": sql.query("metric_of_failed_traces"),
        "metric_of_judgements": sql.query("metric_of_judgements"),
        "metric_of_matches": sql.query("metric_of_matches"),
    }


def _outcomes() -> dict[OutcomesStatement, str]:
    return {
        "outcomes_of_spans": sql.query("outcomes_of_spans"),
        "outcomes_of_traces": sql.query("outcomes_of_traces"),
        "outcomes_of_judgements": sql.query("outcomes_of_judgements"),
    }


def _used(statement: str, values: Mapping[str, object]) -> dict[str, object]:
    # DuckDB refuses values that the statement does not name.
    return {name: values[name] for name in re.findall(r"\$(\w+)", statement)}


def metric_statement(statement: NumbersStatement, values: Mapping[str, object]) -> str:
    """Return a statement with its values inlined, for reproducing the numbers."""
    text = _numbers()[statement].split("\n", 1)[1].strip().rstrip(";")
    for table, view in _OF_VIEWS.items():
        text = text.replace(table, view)
    return re.sub(r"\$(\w+)", lambda match: _literal(values[match[1]]), text)


_OF_VIEWS: Final[Mapping[str, str]] = {
    "trace_reading": "traces",
    "FROM span AS": "FROM spans AS",
    "s.status_code = 2": "s.status_code = 'ERROR'",
    """contains(s.resource_attributes, '"tracejury.run.id"') IS NOT TRUE""": (
        "s.resource_attributes['tracejury.run.id'] IS NULL"
    ),
    """contains(s.resource_attributes, '"tracejury.playground"') IS NOT TRUE""": (
        "s.resource_attributes['tracejury.playground'] IS NULL"
    ),
}
"""SQL over tables, and its equivalent over the documented views. Checks read the tables, because the views build maps
and names of codes, which costs too much at each check."""


def _literal(value: object) -> str:
    match value:
        case None:
            return "NULL"
        case bool() | int() | float():
            return str(value).upper()
        case _:
            return "'" + str(value).replace("'", "''") + "'"


def _store(cursor: duckdb.DuckDBPyConnection, look: MetricLook) -> None:
    """Store a look. The writer's thread calls this in a transaction."""
    row = look.row
    values = {"monitor_id": row.monitor_id, "version": row.version, "state": look.state, "alert_id": look.alert_id}
    if not cursor.execute(sql.query("note_metric_look"), values | {"at_us": look.at_ns // 1000}).fetchall():
        return
    for each in look.happened:
        store_happening(cursor, each, look.at_ns)
