"""Receivers of notifications. Their secrets are encrypted before they come here."""

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb

from storage import sql
from storage.alerting.webhook_options import WebhookOptions, webhook_options
from storage.engine.database import Database
from storage.ingest.writer import Writer
from storage.records import EventType, Origin
from storage.sql import dict_rows
from storage.versioned import write_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookText(WebhookOptions):
    """Configuration of a receiver."""

    url: str  # shortened if it is a secret
    events: Sequence[EventType]
    sealed: bytes | None
    has_secret: bool
    previous_until_ns: int | None  # until when the previous secret is used as well


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook(WebhookText):
    """A receiver and its state. `failures` counts the deliveries that were given up since the last success."""

    tenant: str
    webhook_id: str
    project: str | None  # None: all
    origin: Origin
    version: int  # counts changes of its configuration, not of its state
    disabled_at_ns: int | None  # when the server disabled it after failures; None if it did not
    disabled_reason: str | None
    failing_since_ns: int | None
    failures: int
    last_success_at_ns: int | None
    created_at_ns: int
    updated_at_ns: int


class Webhooks:
    """The receivers of a store. Safe to use from any thread but the writer's."""

    def __init__(self, database: Database, writer: Writer) -> None:
        self._database = database
        self._writer = writer

    def project(self, text: str, *, tenant: str | None = None) -> str | None:
        """Return the name of the project with this id or name, or None.

        With `tenant`, only its projects and shared ones are searched.
        """
        with self._database.cursor() as cursor:
            rows = cursor.execute(sql.query("project_named"), {"tenant": tenant, "project": text}).fetchall()
        return rows[0][0] if rows else None

    def all(self, *, tenant: str | None = None) -> list[Webhook]:
        """Return the webhooks of all projects of a tenant (None: of all tenants), oldest first."""
        return self._find(tenant, every=True)

    def of_project(self, project: str | None, *, tenant: str | None = None) -> list[Webhook]:
        """Return a tenant's webhooks of one project, oldest first; if `project` is None, those that cover all projects.

        If `tenant` is None, return those of all tenants.
        """
        return self._find(tenant, project=project)

    def get(self, webhook_id: str) -> Webhook | None:
        """Return one receiver of any tenant, or None if there is none or it was deleted."""
        webhooks = self._find(None, every=True, webhook_id=webhook_id)
        return webhooks[0] if webhooks else None

    def create(
        self,
        webhook_id: str,
        project: str | None,
        text: WebhookText,
        at_ns: int,
        *,
        tenant: str = "",
        origin: Origin = "API",
    ) -> None:
        """Add a receiver.

        Raises:
            Overloaded: the database cannot be written now.
        """
        values = _values(text) | {"webhook_id": webhook_id, "tenant": tenant, "at_us": at_ns // 1000}
        values |= {"project": project, "origin": origin}

        def write(cursor: duckdb.DuckDBPyConnection) -> None:
            cursor.execute(sql.query("insert_alert_webhook"), values)

        self._writer.store(write, 1)

    def replace(self, webhook_id: str, version: int, text: WebhookText, at_ns: int) -> bool:
        """Replace a receiver under the same id, if it has this version; return False if not, or if it does not exist.

        If `text` disables the receiver, its waiting deliveries are cancelled, except tests.

        Raises:
            Overloaded: the database cannot be written now.
        """
        values = _values(text) | {"webhook_id": webhook_id, "version": version, "at_us": at_ns // 1000}
        error = None if text.enabled else "the receiver was switched off"
        return self._change(sql.query("update_alert_webhook"), values, error, tests=False)

    def replace_secret(self, webhook_id: str, *, sealed: bytes, before: bytes) -> None:
        """Store the same secret in a new encryption unless it has changed meanwhile; the version stays the same.

        Raises:
            Overloaded: the database cannot be written now.
        """
        values = {"webhook_id": webhook_id, "sealed": sealed, "before": before}

        def write(cursor: duckdb.DuckDBPyConnection) -> None:
            cursor.execute(sql.query("replace_webhook_secret"), values)

        self._writer.store(write, 1)

    def delete(self, webhook_id: str, version: int, at_ns: int) -> bool:
        """Delete a receiver with its secrets, if it has this version; return False if not, or if it does not exist.

        Raises:
            Overloaded: the database cannot be written now.
        """
        values = {"webhook_id": webhook_id, "version": version, "at_us": at_ns // 1000}
        return self._change(sql.query("delete_alert_webhook"), values, "the receiver was deleted", tests=True)

    def _change(self, statement: str, values: dict[str, object], called_off: str | None, *, tests: bool) -> bool:
        def cancel(cursor: duckdb.DuckDBPyConnection) -> None:
            why = {"webhook_id": values["webhook_id"], "at_us": values["at_us"]}
            cursor.execute(sql.query("cancel_alert_deliveries"), why | {"error": called_off, "tests": tests})

        return bool(write_rows(self._writer, statement, values, then=None if called_off is None else cancel))

    def _find(self, tenant: str | None, **filters: object) -> list[Webhook]:
        values = {"webhook_id": None, "every": False, "project": None} | filters
        with self._database.cursor() as cursor:
            cursor.execute(sql.query("alert_webhooks"), values | {"tenant": tenant})
            return [Webhook(**row) for row in dict_rows(cursor)]


def _values(text: WebhookText) -> dict[str, object]:
    until_ns = text.previous_until_ns
    options = webhook_options(text).items()
    return {
        "options": {name: list(value) if isinstance(value, tuple) else value for name, value in options},
        "url": text.url,
        "events": list(text.events),
        "sealed": text.sealed,
        "has_secret": text.has_secret,
        "previous_until_us": None if until_ns is None else until_ns // 1000,
    }
