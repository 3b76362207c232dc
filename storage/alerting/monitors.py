"""Storage of monitors: results in the order in which they were stored, and the state of streams."""

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias, assert_never

import duckdb
import pyarrow as pa

from storage import sql
from storage.alerting.alerts import AlertFinding, Escalation, escalate_alert, open_alert, recover_alert
from storage.alerting.counted_scores import SCORES
from storage.alerting.outbox import Outbox
from storage.engine.arrow import arrow_table
from storage.engine.database import Database
from storage.engine.row_cache import RowCache
from storage.errors import WriteConflict
from storage.ingest.writer import Writer
from storage.records import JsonValue, Measure
from storage.sql import dict_rows


class RuleKey(NamedTuple):
    """A rule and a project with results of the rule."""

    tenant: str
    project: str | None
    rule_id: str


class StreamKey(NamedTuple):
    """A rule and a service of a project, because releases of two services are never compared. None: no service."""

    tenant: str
    project: str | None
    rule_id: str
    service: str | None

    @property
    def rule(self) -> RuleKey:
        """Return the key without the service."""
        return RuleKey(self.tenant, self.project, self.rule_id)


class Counted(NamedTuple):
    """A score that monitors count."""

    number: int
    job_id: int
    round: int
    tenant: str
    project: str | None
    rule_id: str
    service: str | None
    rule: str
    revision: int
    fingerprint: str
    evaluator: str
    release: str | None
    passed: bool | None
    score: float | None
    is_baseline: bool  # an old trace judged by a new evaluator, as a baseline for it
    created_us: int

    @property
    def key(self) -> StreamKey:
        """Return the key of the result's streams."""
        return StreamKey(self.tenant, self.project, self.rule_id, self.service)


class PastResult(NamedTuple):
    """A result in the history of a stream, as far as monitors use it."""

    number: int
    release: str | None
    passed: bool | None
    score: float | None
    is_baseline: bool
    created_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRow:
    """State of a stream. `state` is JSON. The times are those of its first and its last result."""

    key: StreamKey
    fingerprint: str
    state: str
    since_us: int
    updated_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPart:
    """Results of a stream numbered `after` + 1 to `until`, of some releases; None means of any."""

    after: int
    until: int
    releases: tuple[str, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Worst:
    """The worst results of a `StreamPart`, and how many of its results did not pass."""

    examples: Sequence[Mapping[str, JsonValue]]
    not_passed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """End of an alert."""

    tenant: str
    alert_id: str
    document: Mapping[str, JsonValue]


Happening: TypeAlias = AlertFinding | Escalation | Recovery
"""Event of an alert: it is opened, it escalates, or it is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """Position of monitors: states include results up to `number`; events about results up to `announced` were sent."""

    number: int
    announced: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchStep:
    """Result of watching new results, stored in one transaction if the cursor is still at `after`."""

    after: int
    until: int
    streams: Sequence[StreamRow]
    happened: Sequence[Happening]
    at_ns: int


_EXAMPLES: Final = 10
_PAST_RESULTS: Final = 100_000
"""Maximum number of results from which a state is rebuilt when settings change: 50 baselines of the default size, which
take two seconds at 20 µs each. A guess."""

_KEYS: Final = pa.schema([(name, pa.string()) for name in StreamKey._fields])
_ROWS: Final = pa.schema(
    [
        *_KEYS,
        ("fingerprint", pa.string()),
        ("state", pa.string()),
        ("since_us", pa.int64()),
        ("updated_us", pa.int64()),
    ]
)


class Monitors:
    """Storage of monitors. `store` is for a single thread, all else for any thread. None is for the writer's."""

    def __init__(self, database: Database, writer: Writer, outbox: Outbox, stored: threading.Event) -> None:
        self._database = database
        self._writer = writer
        self._outbox = outbox
        self._stored = stored
        self._last_result = RowCache(database, sql.query("last_result"))
        self._without_rule = RowCache(database, sql.query("alerts_of_deleted_rules"))

    def wait_for_results(self, timeout_s: float) -> None:
        """Wait until more results were stored, or the time is over."""
        self._stored.wait(timeout_s)
        self._stored.clear()

    def wake(self) -> None:
        """End a wait."""
        self._stored.set()

    def begin(self, edition: int) -> None:
        """Delete states that another edition wrote, so that they are rebuilt from results; no event is sent again.

        Raises:
            Overloaded: the database cannot be written now.
        """

        def write(cursor: duckdb.DuckDBPyConnection) -> None:
            if cursor.execute(sql.query("forget_monitor_cursor"), {"edition": edition}).fetchall()[0][0]:
                cursor.execute(sql.query("forget_monitor_states"))

        self._writer.store(write, 1)

    def cursor(self) -> Cursor:
        """Return the position up to which monitors have read results."""
        with self._database.cursor() as cursor:
            ((number, announced),) = cursor.execute(sql.query("monitor_cursor")).fetchall()
        return Cursor(number=number, announced=announced)

    def results(self, after: int, most: int) -> tuple[list[Counted], int]:
        """Return the next results that count, in order, and the number up to which they are complete."""
        ((last,),) = self._last_result.rows()
        if last <= after:
            return [], after
        params = {"after": after, "until": last, "rows": most}
        with self._database.cursor() as cursor:
            table = arrow_table(cursor, sql.query("counted_results"), params)
        columns = [table.column(name).to_pylist() for name in Counted._fields]
        counted = [Counted(*row) for row in zip(*columns, strict=True)]
        return counted, counted[-1].number if len(counted) == most else last

    def streams(self, keys: Iterable[StreamKey]) -> list[StreamRow]:
        """Return the state of all streams of these rules and services."""
        key_rows = pa.Table.from_pylist([key._asdict() for key in keys], schema=_KEYS)
        with self._database.cursor() as cursor:
            cursor.register("wanted_rules", key_rows)
            cursor.execute(sql.query("monitor_states"))
            return [_stream(row) for row in dict_rows(cursor)]

    def past(self, key: StreamKey, fingerprint: str, first: int, before: int) -> list[PastResult]:
        """Return the latest results of a stream with numbers from `first` to below `before`, in order."""
        bounds = {"first": first, "before": before, "rows": _PAST_RESULTS}
        params = {**key._asdict(), "fingerprint": fingerprint, **bounds}
        with self._database.cursor() as cursor:
            table = arrow_table(cursor, sql.query("results_of_stream"), params)
        columns = [table.column(name).to_pylist() for name in PastResult._fields]
        return [PastResult(*row) for row in zip(*columns, strict=True)][::-1]

    def page(
        self,
        *,
        project: str | None = None,
        rule: str | None = None,
        tenant: str | None = None,
        offset: int = 0,
        limit: int = 50,
    ) -> list[StreamRow]:
        """Return stream states by project and rule, each rule's newest first; `rule` is an id or a name.

        With a tenant, return its streams and shared ones.

        """
        parameters = {"tenant": tenant, "project": project, "rule": rule, "offset": offset, "limit": limit}
        with self._database.cursor() as cursor:
            cursor.execute(sql.query("page_of_monitor_states"), parameters)
            return [_stream(row) for row in dict_rows(cursor)]

    def latest(self, *, rule_id: str | None = None, tenant: str | None = None) -> list[StreamRow]:
        """Return for each rule, project and service the stream of the evaluator with the latest result."""
        with self._database.cursor() as cursor:
            cursor.execute(sql.query("latest_streams"), {"rule_id": rule_id, "tenant": tenant})
            return [_stream(row) for row in dict_rows(cursor)]

    def worst(
        self, key: StreamKey, fingerprint: str, part: StreamPart, measure: Measure, *, lower_is_better: bool
    ) -> Worst:
        """Return the worst results of a part of a stream by score; if the measure is `passed`, only failed ones."""
        parameters = {
            **key._asdict(),
            "fingerprint": fingerprint,
            "after": part.after,
            "until": part.until,
            "releases": None if part.releases is None else list(part.releases),
            "measure": measure,
            "lower_is_better": lower_is_better,
            "rows": _EXAMPLES,
        }
        with self._database.cursor() as cursor:
            cursor.execute(sql.query("worst_results"), parameters)
            rows = dict_rows(cursor)
        examples = [
            {
                "traceId": row["trace_id"],
                "spanId": row["span_id"],
                **({"sessionId": row["session_id"]} if row["session_id"] else {}),
                "score": row["score"],
                "reason": row["reason"],
            }
            for row in rows
            if measure == "score" or not row["passed"]
        ]
        return Worst(examples=examples, not_passed=rows[0]["not_passed"] if rows else 0)

    def store(self, step: WatchStep) -> None:
        """Store the state of monitors, their position, and their events.

        Raises:
            Overloaded: the step may or may not be stored; check the cursor before a retry.
            WriteConflict: nothing was stored, because the cursor is not at the beginning of the step.
        """
        self._writer.store(lambda cursor: _store(cursor, step), len(step.streams) + len(step.happened))
        if step.happened:
            self._outbox.changed()

    def end_alerts_of_deleted_rules(self, at_ns: int) -> list[str]:
        """End the alerts of deleted rules, which get no results any more; return their ids.

        Raises:
            Overloaded: the ends may or may not be stored; the call may be retried.
        """
        ended = [row[:2] for row in self._without_rule.rows() if row[2] <= at_ns // 1000]
        if not ended:
            return []

        def write(cursor: duckdb.DuckDBPyConnection) -> None:
            for tenant, alert_id in ended:
                recover_alert(cursor, tenant, alert_id, {"how": "deleted"}, at_ns)

        self._writer.store(write, len(ended))
        self._outbox.changed()
        return [alert_id for _, alert_id in ended]


def store_happening(cursor: duckdb.DuckDBPyConnection, happened: Happening, at_ns: int) -> None:
    """Store the new state of an alert and queue its event, in the transaction of the cursor."""
    match happened:
        case AlertFinding():
            open_alert(cursor, happened, at_ns)
        case Escalation():
            escalate_alert(cursor, happened, at_ns)
        case Recovery():
            recover_alert(cursor, happened.tenant, happened.alert_id, happened.document, at_ns)
        case _:
            assert_never(happened)


def is_of_scores(fingerprint: str) -> bool:
    """Return True if a stream's scores are by people and applications, not by an evaluator."""
    return fingerprint.startswith(SCORES)


def numbers_of_alert(
    key: StreamKey, fingerprint: str, measure: Measure, sides: Mapping[str, Sequence[StreamPart]]
) -> str:
    """Return the statement that counts an alert's sides again, over `evaluations` or `counted_scores`."""
    text = sql.query("numbers_of_alert").split("\n", 1)[1].strip().rstrip(";")
    literals = {name: "" if value is None else _literal(value) for name, value in key._asdict().items()}
    is_scored = "passed IS NOT NULL" if measure == "passed" else "score BETWEEN 0 AND 1"
    by_others = is_of_scores(fingerprint)
    counted = "" if by_others else "counted AND "
    project = "project IS NULL" if key.project is None else f"project = {literals['project']}"
    service = "service IS NULL" if key.service is None else f"service = {literals['service']}"
    stream = (
        f"{counted}tenant = {literals['tenant']} AND {project}\n    AND rule_id = {literals['rule_id']} AND {service}"
        f"\n    AND fingerprint = {_literal(fingerprint)}\n    AND {is_scored}"
    )
    filled = {
        "/* view */": "counted_scores" if by_others else "evaluations",
        "/* measure */": "passed::INTEGER" if measure == "passed" else "score",
        "/* stream */": stream,
        **{f"/* {side} */": _condition(parts, by_others=by_others) for side, parts in sides.items()},
    }
    for mark, words in filled.items():
        text = text.replace(mark, words)
    return text


def _condition(parts: Sequence[StreamPart], *, by_others: bool) -> str:
    return "\n        OR ".join(_of_part(part, by_others=by_others) for part in parts) or "false"


def _of_part(part: StreamPart, *, by_others: bool) -> str:
    numbers = f"number > {part.after} AND number <= {part.until}"
    if part.releases is None:
        return f"({numbers})" if by_others else f"({numbers} AND occasion <> 'baseline')"
    listed = ", ".join(map(_literal, part.releases)) or "NULL"
    return f"({numbers} AND release IN ({listed}))"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _stream(row: Mapping[str, Any]) -> StreamRow:
    return StreamRow(
        key=StreamKey(row["tenant"], row["project"], row["rule_id"], row["service"]),
        fingerprint=row["fingerprint"],
        state=row["state"],
        since_us=row["since_us"],
        updated_us=row["updated_us"],
    )


def _store(cursor: duckdb.DuckDBPyConnection, step: WatchStep) -> None:
    """Store one step. The writer's thread calls this in a transaction."""
    moved = cursor.execute(sql.query("move_monitor_cursor"), {"after": step.after, "until": step.until}).fetchall()
    if moved != [(1,)]:
        raise WriteConflict(f"the monitors are not at result {step.after}")
    if step.streams:
        rows = [
            {
                **row.key._asdict(),
                "fingerprint": row.fingerprint,
                "state": row.state,
                "since_us": row.since_us,
                "updated_us": row.updated_us,
            }
            for row in step.streams
        ]
        cursor.register("incoming_states", pa.Table.from_pylist(rows, schema=_ROWS))
        cursor.execute(sql.query("delete_monitor_states"))
        cursor.execute(sql.query("insert_monitor_states"))
    for each in step.happened:
        store_happening(cursor, each, step.at_ns)
