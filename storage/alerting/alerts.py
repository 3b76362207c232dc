"""Alerts: episodes of lower quality, from the time they are opened until they are over.

A monitor calls `open_alert` and `recover_alert` in the transaction that stores its state, then
`Outbox.changed`; or `Alerts.open` and `Alerts.recover`, which have a transaction of their own.
"""

import datetime as dt
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import duckdb

from storage import sql
from storage.alerting.outbox import Outbox, WebhookEvent, queue_event
from storage.engine.database import Database
from storage.ingest.writer import Writer
from storage.records import AlertKind, AlertState, EventType, JsonValue, Measure, Severity
from storage.sql import dict_rows

_ID_DIGITS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedSide:
    """One side of a comparison: the share that passed, the mean score, or a metric, with its interval."""

    release: str | None  # whose results these are, comma-separated if several; None: of any release
    rate: float
    low: float
    high: float
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertFinding:
    """A finding that opens an alert.

    `episode` identifies the finding, and is the same when the same results are looked at again. `document` holds the
    evidence: `examples`, a list of objects with `traceId`, `spanId`, `score` and `reason`, the worst first; `sql`, the
    statement that reproduces the numbers; and any other JSON.

    """

    tenant: str
    episode: str
    project: str | None
    rule_id: str
    rule: str  # its name
    revision: int
    kind: AlertKind
    evaluator: str
    fingerprint: str | None
    measure: Measure
    baseline: ComparedSide
    candidate: ComparedSide
    regressed_count: int  # results of the candidate that did not pass
    evidence: float
    evidence_threshold: float
    document: Mapping[str, JsonValue]
    metric: str | None = None  # if set, `rule_id` and `rule` name its metric monitor, and `document` has its `unit`
    severity: Severity = "warning"

    @property
    def alert_id(self) -> str:
        """Return the alert's id."""
        return alert_id_of(self.tenant, self.episode)


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """A finding and the state of its alert. `recovery` is the evidence that it is over."""

    finding: AlertFinding
    state: AlertState
    opened_at_ns: int
    acknowledged_by: str | None = None
    acknowledged_at_ns: int | None = None
    recovery: Mapping[str, JsonValue] | None = None
    recovered_at_ns: int | None = None
    escalations: int = 0  # how often it was reported to be worse than before
    escalated_at_ns: int | None = None  # the last time

    @property
    def alert_id(self) -> str:
        """Return the alert's id."""
        return self.finding.alert_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Escalation:
    """An open alert whose finding became worse than announced; `finding` is the new one."""

    tenant: str
    alert_id: str
    finding: AlertFinding


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertFilter:
    """Filter of alerts; None matches all. `rule` is an id or a name."""

    project: str | None = None
    rule: str | None = None
    state: AlertState | None = None
    kind: AlertKind | None = None
    metric: str | None = None
    severity: Severity | None = None


def alert_id_of(tenant: str, episode: str) -> str:
    """Return the id of an episode's alert."""
    return _digest("alert", tenant, episode)


def open_alert(cursor: duckdb.DuckDBPyConnection, finding: AlertFinding, at_ns: int) -> bool:
    """Open an alert and queue `alert.opened`, in the transaction of the cursor; return False if it exists.

    The traces of its examples are pinned against deletion until the alert recovers.
    """
    values = _side_values("baseline", finding.baseline) | _side_values("candidate", finding.candidate)
    values |= {name: getattr(finding, name) for name in _AS_IS}
    values |= {"alert_id": finding.alert_id, "document": json.dumps(finding.document), "at_us": at_ns // 1000}
    if not cursor.execute(sql.query("insert_alert"), values).fetchall():
        return False
    _pin(cursor, finding.alert_id, finding, at_ns)
    _tell(cursor, "alert.opened", Alert(finding=finding, state="open", opened_at_ns=_to_us(at_ns)), at_ns)
    return True


def escalate_alert(cursor: duckdb.DuckDBPyConnection, escalation: Escalation, at_ns: int) -> bool:
    """Escalate an open alert and queue `alert.escalated`; return False if it does not exist or is over.

    The alert loses its acknowledgement and gets the numbers of the new finding; those that earlier events announced are
    in `told` of its document, oldest first.

    """
    alerts = _alerts(cursor, escalation.tenant, {"alert_id": escalation.alert_id})
    if not alerts or alerts[0].state == "recovered":
        return False
    before, finding = alerts[0], escalation.finding
    document = {**finding.document, "told": [*_earlier_notices(before), _announcement(before)]}
    values = _side_values("candidate", finding.candidate) | {name: getattr(finding, name) for name in _ESCALATED}
    values |= {"document": json.dumps(document)}
    _pin(cursor, escalation.alert_id, finding, at_ns)
    return _change(cursor, "alert.escalated", (escalation.tenant, escalation.alert_id), values, at_ns)


def recover_alert(
    cursor: duckdb.DuckDBPyConnection, tenant: str, alert_id: str, recovery: Mapping[str, JsonValue], at_ns: int
) -> bool:
    """End an alert and queue `alert.recovered`; return False if it does not exist or was over."""
    if not _change(cursor, "alert.recovered", (tenant, alert_id), {"recovery": json.dumps(recovery)}, at_ns):
        return False
    cursor.execute(sql.query("unpin_traces"), {"tenant": tenant, "why": _why(alert_id)})
    return True


def acknowledge_alert(
    cursor: duckdb.DuckDBPyConnection, tenant: str, alert_id: str, by: str | None, at_ns: int
) -> bool:
    """Acknowledge an alert and queue `alert.acknowledged`; return False if it is not open."""
    return _change(cursor, "alert.acknowledged", (tenant, alert_id), {"by": by}, at_ns)


class Alerts:
    """The alerts of a store. Safe to use from any thread but the writer's."""

    def __init__(self, database: Database, writer: Writer, outbox: Outbox) -> None:
        self._database = database
        self._writer = writer
        self._outbox = outbox

    def open(self, finding: AlertFinding, at_ns: int) -> bool:
        """Open an alert; return False if that episode has one.

        Raises:
            Overloaded: nothing was stored.
        """
        return self._write(lambda cursor: open_alert(cursor, finding, at_ns))

    def escalate(self, escalation: Escalation, at_ns: int) -> bool:
        """Escalate an alert; return False if it does not exist or is over.

        Raises:
            Overloaded: nothing was stored.
        """
        return self._write(lambda cursor: escalate_alert(cursor, escalation, at_ns))

    def recover(self, alert_id: str, recovery: Mapping[str, JsonValue], at_ns: int, *, tenant: str = "") -> bool:
        """End an alert; return False if it does not exist or was over before.

        Raises:
            Overloaded: nothing was stored.
        """
        return self._write(lambda cursor: recover_alert(cursor, tenant, alert_id, recovery, at_ns))

    def acknowledge(self, alert_id: str, at_ns: int, *, by: str | None = None, tenant: str = "") -> bool:
        """Acknowledge an alert; return False if it is not open.

        Raises:
            Overloaded: nothing was stored.

        """
        return self._write(lambda cursor: acknowledge_alert(cursor, tenant, alert_id, by, at_ns))

    def newest(
        self, criteria: AlertFilter | None = None, *, tenant: str | None = None, offset: int = 0, limit: int = 50
    ) -> list[Alert]:
        """Return alerts, the latest opened first, of a tenant plus shared ones; None for all."""
        criteria = criteria or AlertFilter()
        with self._database.cursor() as cursor:
            return _alerts(cursor, tenant, asdict(criteria) | {"offset": offset, "limit": limit})

    def count_open(self, *, tenant: str | None, most: int) -> int:
        """Count unacknowledged alerts, up to `most`, of a tenant plus shared ones; None counts those of all."""
        with self._database.cursor() as cursor:
            parameters = {"tenant": tenant, "most": most}
            ((count,),) = cursor.execute(sql.query("count_open_alerts"), parameters).fetchall()
        return int(count)

    def get(self, alert_id: str, *, tenant: str | None = None) -> Alert | None:
        """Return an alert of a tenant, or a shared one. If `tenant` is None, the alert may be of any tenant."""
        with self._database.cursor() as cursor:
            alerts = _alerts(cursor, tenant, {"alert_id": alert_id})
        return alerts[0] if alerts else None

    def _write(self, change: Callable[[duckdb.DuckDBPyConnection], bool]) -> bool:
        changed: list[bool] = []
        self._writer.store(lambda cursor: changed.append(change(cursor)), 1)
        if changed[0]:
            self._outbox.changed()
        return changed[0]


_AS_IS = (
    "tenant",
    "episode",
    "project",
    "rule_id",
    "rule",
    "revision",
    "kind",
    "evaluator",
    "fingerprint",
    "measure",
    "regressed_count",
    "evidence",
    "evidence_threshold",
    "metric",
    "severity",
)
"""Fields of a finding that are columns of the same name."""

_ESCALATED = ("regressed_count", "evidence", "evidence_threshold")
"""The columns that change when an alert is escalated, besides the candidate and the document."""


def alert_of(document: Mapping[str, Any]) -> Alert:
    """Read from an event's document the alert as it was when the event was queued."""
    values = dict(document["alert"])
    finding = dict(values.pop("finding"))
    finding |= {name: ComparedSide(**finding[name]) for name in ("baseline", "candidate")}
    return Alert(finding=AlertFinding(**finding), **values)


def _change(
    cursor: duckdb.DuckDBPyConnection, event: EventType, key: tuple[str, str], values: dict[str, object], at_ns: int
) -> bool:
    """Change the state of an alert and queue its event; return False if nothing changed."""
    tenant, alert_id = key
    values |= {"tenant": tenant, "alert_id": alert_id, "at_us": at_ns // 1000}
    if not cursor.execute(_changes()[event], values).fetchall():
        return False
    (alert,) = _alerts(cursor, tenant, {"alert_id": alert_id})
    _tell(cursor, event, alert, at_ns)
    return True


def _changes() -> dict[EventType, str]:
    return {
        "alert.escalated": sql.query("escalate_alert"),
        "alert.acknowledged": sql.query("acknowledge_alert"),
        "alert.recovered": sql.query("recover_alert"),
    }


def _tell(cursor: duckdb.DuckDBPyConnection, event: EventType, alert: Alert, at_ns: int) -> None:
    finding = alert.finding
    times = (str(alert.escalations),) if alert.escalations else ()  # so that each escalation has its own event id
    webhook_event = WebhookEvent(
        tenant=finding.tenant,
        event_id=_digest("event", finding.tenant, finding.alert_id, event, *times),
        project=finding.project,
        type=event,
        alert_id=finding.alert_id,
        document={"alert": asdict(alert)},
        at_ns=at_ns,
    )
    queue_event(cursor, webhook_event)


def _alerts(cursor: duckdb.DuckDBPyConnection, tenant: str | None, filters: Mapping[str, object]) -> list[Alert]:
    values = dict.fromkeys(("alert_id", *AlertFilter.__dataclass_fields__)) | {"offset": 0, "limit": 1}
    cursor.execute(sql.query("alerts"), values | dict(filters) | {"tenant": tenant})
    return [_alert(row) for row in dict_rows(cursor)]


def _alert(row: dict[str, Any]) -> Alert:
    recovery = row["recovery"]
    return Alert(
        finding=AlertFinding(
            **{name: row[name] for name in _AS_IS},
            baseline=_side(row, "baseline"),
            candidate=_side(row, "candidate"),
            document=json.loads(row["document"]),
        ),
        state=row["state"],
        opened_at_ns=row["opened_at_ns"],
        acknowledged_by=row["acknowledged_by"],
        acknowledged_at_ns=row["acknowledged_at_ns"],
        recovery=None if recovery is None else json.loads(recovery),
        recovered_at_ns=row["recovered_at_ns"],
        escalations=row["escalations"],
        escalated_at_ns=row["escalated_at_ns"],
    )


def _side(row: Mapping[str, Any], name: str) -> ComparedSide:
    return ComparedSide(release=row[name], **{key: row[f"{name}_{key}"] for key in _SIDE})


def _side_values(name: str, side: ComparedSide) -> dict[str, object]:
    return {name: side.release, **{f"{name}_{key}": getattr(side, key) for key in _SIDE}}


_SIDE = ("rate", "low", "high", "count")


def _announcement(alert: Alert) -> dict[str, JsonValue]:
    at_ns = alert.opened_at_ns if alert.escalated_at_ns is None else alert.escalated_at_ns
    at = dt.datetime.fromtimestamp(at_ns // 10**9, dt.UTC)
    return {"at": f"{at:%Y-%m-%dT%H:%M:%SZ}", **{key: getattr(alert.finding.candidate, key) for key in _SIDE}}


def _earlier_notices(alert: Alert) -> list[JsonValue]:
    notices = alert.finding.document.get("told")
    return notices if isinstance(notices, list) else []


def _pin(cursor: duckdb.DuckDBPyConnection, alert_id: str, finding: AlertFinding, at_ns: int) -> None:
    for trace_id in _examples(finding):
        pin = {"tenant": finding.tenant, "trace_id": trace_id, "why": _why(alert_id), "now_us": at_ns // 1000}
        cursor.execute(sql.query("pin_trace"), pin)


def _examples(finding: AlertFinding) -> list[str]:
    examples = finding.document.get("examples")
    listed = examples if isinstance(examples, list) else []
    named_traces = (each.get("traceId") for each in listed if isinstance(each, dict))
    return sorted({trace_id for trace_id in named_traces if isinstance(trace_id, str)})


def _why(alert_id: str) -> str:
    return f"alert {alert_id}"


def _digest(*parts: str) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:_ID_DIGITS]


def _to_us(at_ns: int) -> int:
    return at_ns // 1000 * 1000
