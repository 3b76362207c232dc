"""Outbox of notifications: events, their deliveries to receivers, and the results of the attempts."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import duckdb

from storage import sql
from storage.aging import Aging
from storage.engine.database import Database
from storage.engine.row_cache import RowCache
from storage.ingest.writer import Writer
from storage.records import DeliveryState, EventType, JsonValue
from storage.sql import dict_rows
from storage.versioned import write_rows

TEST: EventType = "webhook.test"
DIGEST: EventType = "alert.digest"
RUN_REGRESSION: EventType = "RUN_REGRESSION"

_MOST_GATHERED: Final = 5_000
"""Maximum number of events that one transaction puts into digests; the others are in a later digest. A guess."""

_MOST_IN_DIGEST: Final = 100
"""Maximum number of alerts that a digest lists, some 3 kB each; others are only counted. A guess: as many as a person
reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookEvent:
    """An event for receivers. An event that is queued twice has the same id."""

    tenant: str
    event_id: str
    project: str | None
    type: EventType
    alert_id: str | None  # None for a test, a digest, or an event about a run
    document: Mapping[str, JsonValue]  # the alert or run as of `at_ns`
    at_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DueDelivery:
    """A delivery whose next attempt is due."""

    delivery_id: str
    webhook_id: str
    attempts: int  # since it was queued last
    replays: int
    event_id: str
    type: EventType
    alert_id: str | None
    document: Mapping[str, JsonValue]
    created_at_ns: int  # of the event


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """Delivery of an event to one receiver, with its state and its last attempt."""

    delivery_id: str
    event_id: str
    webhook_id: str
    type: EventType
    alert_id: str | None
    state: DeliveryState
    attempts: int
    replays: int
    last_status: int | None
    last_error: str | None
    next_attempt_at_ns: int | None
    last_attempt_at_ns: int | None
    created_at_ns: int
    finished_at_ns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryAttempt:
    """Result of one attempt. `disable` is the reason for disabling the receiver at once, or None."""

    delivery_id: str
    webhook_id: str
    type: EventType
    replays: int
    state: DeliveryState
    at_ns: int
    next_at_ns: int
    status: int | None
    error: str | None
    disable: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchOffPolicy:
    """Limits after which a failing receiver is disabled: a number of deliveries, or a time."""

    failed_deliveries: int = 20
    failing_ns: int = 3 * 86_400 * 10**9


def queue_event(cursor: duckdb.DuckDBPyConnection, event: WebhookEvent, *, only_for: str | None = None) -> list[str]:
    """Store an event and queue it for its receivers, in the cursor's transaction; return the ids of the deliveries.

    With `only_for`, the event is queued for this receiver alone, whatever the receiver's filters. Repeating the call
    changes nothing.

    """
    values = {
        "tenant": event.tenant,
        "event_id": event.event_id,
        "project": event.project,
        "type": event.type,
        "at_us": event.at_ns // 1000,
    }
    values["alert_id"] = event.alert_id
    cursor.execute(sql.query("insert_alert_event"), values | {"document": json.dumps(event.document)})
    rows = cursor.execute(sql.query("insert_alert_deliveries"), values | {"webhook_id": only_for}).fetchall()
    return [delivery_id for (delivery_id,) in rows]


def queue_digests(cursor: duckdb.DuckDBPyConnection, at_ns: int) -> int:
    """Queue a digest for each receiver whose digest is due, in the cursor's transaction; return their number.

    No event is in two digests of a receiver. A digest shows each alert once, as of its latest event.
    """
    cursor.execute(sql.query("gathered_deliveries"), {"at_us": at_ns // 1000, "limit": _MOST_GATHERED})
    by_receiver: dict[str, list[dict[str, Any]]] = {}
    for row in dict_rows(cursor):
        by_receiver.setdefault(row["webhook_id"], []).append(row)
    for webhook_id, rows in by_receiver.items():
        delivery_ids = [row["delivery_id"] for row in rows]
        event = WebhookEvent(
            tenant=rows[0]["tenant"],
            event_id=hashlib.sha256(json.dumps(["digest", *delivery_ids]).encode()).hexdigest()[:32],
            project=rows[0]["project"],
            type=DIGEST,
            alert_id=None,
            document={"digest": _digest_document(cursor, rows)},
            at_ns=at_ns,
        )
        queue_event(cursor, event, only_for=webhook_id)
        digested = {"delivery_ids": delivery_ids, "at_us": at_ns // 1000}
        cursor.execute(sql.query("note_digested_deliveries"), digested)
    return len(by_receiver)


def _digest_document(cursor: duckdb.DuckDBPyConnection, rows: Sequence[Mapping[str, Any]]) -> dict[str, JsonValue]:
    """Build the digest of one receiver's events, which are oldest first: each alert once, the latest first."""
    steps: dict[str, list[JsonValue]] = {}
    for row in rows:
        steps.setdefault(row["alert_id"], []).append(row["type"])
    last = {row["alert_id"]: row["event_id"] for row in rows}
    shown = list(last)[::-1][:_MOST_IN_DIGEST]
    cursor.execute(sql.query("documents_of_events"), {"event_ids": [last[alert_id] for alert_id in shown]})
    documents = {event_id: json.loads(document) for event_id, document in cursor.fetchall()}
    return {
        "from_ns": rows[0]["event_ns"],
        "until_ns": rows[0]["due_ns"],
        "counts": dict(Counter(row["type"] for row in rows)),
        "alerts": [{**documents[last[alert_id]], "events": steps[alert_id]} for alert_id in shown],
        "left_out": len(last) - len(shown),
    }


class Outbox:
    """The deliveries of a store. Safe to use from any thread but the writer's."""

    def __init__(self, database: Database, writer: Writer, aging: Aging) -> None:
        self._database = database
        self._open = RowCache(database, sql.query("first_open_delivery"))
        self._writer = writer
        self._aging = aging
        self._listeners: list[Callable[[], None]] = []

    def listen(self, listener: Callable[[], None]) -> None:
        """Register a callback for deliveries that may be due; any thread may call it, and it must return at once."""
        self._listeners.append(listener)

    def changed(self) -> None:
        """Wake the sender, as a delivery may be due. Call this after the commit of `queue_event`."""
        for listener in self._listeners:
            listener()

    def send(self, event: WebhookEvent, *, only_for: str) -> str | None:
        """Queue an event for one receiver; return the id of the delivery, or None if there is no such receiver.

        Raises:
            Overloaded: nothing was stored.
        """
        queued: list[str] = []
        self._writer.store(lambda cursor: queued.extend(queue_event(cursor, event, only_for=only_for)), 1)
        self.changed()
        return queued[0] if queued else None

    def gather(self, at_ns: int) -> bool:
        """Queue the digests that are due; return True if there were any.

        Raises:
            Overloaded: nothing was stored.
        """
        if not self._open.rows():
            return False
        parameters = {"at_us": at_ns // 1000, "limit": 1}
        with self._database.cursor() as cursor:
            if not cursor.execute(sql.query("gathered_deliveries"), parameters).fetchall():
                return False
        self._writer.store(lambda cursor: queue_digests(cursor, at_ns), 1)
        return True

    def due(self, at_ns: int, *, each: int, limit: int) -> list[DueDelivery]:
        """Return the deliveries that are due, at most `each` per receiver, the longest due first."""
        if not self._open.rows():
            return []
        values = {"at_us": at_ns // 1000, "each": each, "limit": limit}
        with self._database.cursor() as cursor:
            cursor.execute(sql.query("due_alert_deliveries"), values)
            rows = dict_rows(cursor)
        return [DueDelivery(**(row | {"document": json.loads(row["document"])})) for row in rows]

    def next_due_ns(self, after_ns: int) -> int | None:
        """Return when the next attempt after an instant is due, in ns since the Unix epoch, or None."""
        if not self._open.rows():
            return None
        with self._database.cursor() as cursor:
            cursor.execute(sql.query("next_alert_delivery"), {"at_us": after_ns // 1000})
            ((due_us,),) = cursor.fetchall()
        return None if due_us is None else due_us * 1000

    def record(self, attempts: Sequence[DeliveryAttempt], policy: SwitchOffPolicy) -> None:
        """Record the results of attempts, all of them or none.

        Raises:
            Overloaded: nothing was stored.
        """
        self._writer.store(lambda cursor: _record(cursor, attempts, policy), len(attempts))

    def deliveries(
        self,
        webhook_id: str,
        *,
        state: DeliveryState | None = None,
        offset: int = 0,
        limit: int = 50,
    ) -> list[Delivery]:
        """Return the deliveries to a receiver, newest first."""
        return self._deliveries(webhook_id=webhook_id, state=state, offset=offset, limit=limit)

    def delivery(self, webhook_id: str, delivery_id: str) -> Delivery | None:
        """Return one delivery to a receiver."""
        deliveries = self._deliveries(webhook_id=webhook_id, delivery_id=delivery_id)
        return deliveries[0] if deliveries else None

    def of_alert(self, alert_id: str, *, tenant: str = "", limit: int = 200) -> list[Delivery]:
        """Return the latest `limit` deliveries of an alert, past and pending, oldest first."""
        return self._deliveries(tenant=tenant, alert_id=alert_id, limit=limit)[::-1]

    def replay(self, webhook_id: str, delivery_id: str, at_ns: int) -> bool:
        """Queue a delivery again, under the same id; return False if it waits already, or does not exist.

        Raises:
            Overloaded: nothing was stored.
        """
        values = {"webhook_id": webhook_id, "delivery_id": delivery_id, "at_us": at_ns // 1000}
        queued = write_rows(self._writer, sql.query("replay_alert_delivery"), values)
        self.changed()
        return bool(queued)

    def prune(self, before_ns: int) -> None:
        """Delete deliveries that finished before an instant, and events before it that have no delivery left.

        Nothing is deleted while the clock is in doubt.

        Raises:
            Overloaded: nothing was stored.
        """
        if self._aging.doubt() is not None:
            return

        def write(cursor: duckdb.DuckDBPyConnection) -> None:
            before = {"before_us": before_ns // 1000}
            cursor.execute(sql.query("delete_old_alert_deliveries"), before)
            cursor.execute(sql.query("delete_old_alert_events"), before)

        self._writer.store(write, 1)

    def _deliveries(self, **filters: object) -> list[Delivery]:
        of_all = dict.fromkeys(("webhook_id", "tenant", "alert_id", "delivery_id", "state"))
        with self._database.cursor() as cursor:
            cursor.execute(sql.query("alert_deliveries"), of_all | {"offset": 0, "limit": 1} | filters)
            return [Delivery(**row) for row in dict_rows(cursor)]


def _record(cursor: duckdb.DuckDBPyConnection, attempts: Sequence[DeliveryAttempt], policy: SwitchOffPolicy) -> None:
    for attempt in attempts:
        values = {
            "delivery_id": attempt.delivery_id,
            "replays": attempt.replays,
            "state": attempt.state,
            "at_us": attempt.at_ns // 1000,
            "next_us": attempt.next_at_ns // 1000,
            "status": attempt.status,
            "error": attempt.error,
        }
        cursor.execute(sql.query("update_alert_delivery"), values)
        if attempt.type != TEST:
            _note_health(cursor, attempt, policy)


def _note_health(cursor: duckdb.DuckDBPyConnection, attempt: DeliveryAttempt, policy: SwitchOffPolicy) -> None:
    """Update the receiver's health, and disable it if it failed too often."""
    who = {"webhook_id": attempt.webhook_id}
    now = {"at_us": attempt.at_ns // 1000}
    if attempt.state == "delivered":
        cursor.execute(sql.query("note_webhook_success"), who | now)
        return
    is_final = attempt.state == "failed"
    rows = cursor.execute(sql.query("note_webhook_failure"), who | now | {"given_up": is_final}).fetchall()
    reason = attempt.disable
    for since_us, failures in rows:
        days = policy.failing_ns / (86_400 * 10**9)
        if reason is None and is_final and attempt.at_ns - since_us * 1000 >= policy.failing_ns:
            reason = f"nothing but failures for {days:g} days; the last one: {attempt.error}"
        if reason is None and failures >= policy.failed_deliveries:
            reason = f"{failures} deliveries failed one after another; the last one: {attempt.error}"
    if reason is not None:
        cursor.execute(sql.query("disable_alert_webhook"), who | now | {"reason": reason})
        called_off = {"error": f"the receiver was switched off: {reason}", "tests": False}
        cursor.execute(sql.query("cancel_alert_deliveries"), who | now | called_off)
