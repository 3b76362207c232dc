"""Ended runs that are due for a comparison with their baseline, and notification if one is worse."""

from typing import Final

import duckdb

from storage import sql
from storage.alerting.outbox import Outbox, WebhookEvent, queue_event
from storage.engine.database import Database
from storage.engine.row_cache import RowCache
from storage.ingest.writer import Writer

_LONGEST_WAIT_US: Final = 3_600_000_000
"""Maximum time for which a comparison waits for open evaluations, after the run or an evaluation of it ended. It is the
longest pause that a judge's API can request."""


class RunLooks:
    """Runs that are due for a comparison. Safe to use from any thread but the writer's."""

    def __init__(self, database: Database, writer: Writer, outbox: Outbox) -> None:
        self._database = database
        self._writer = writer
        self._outbox = outbox
        self._due = RowCache(database, sql.query("runs_to_look_at"))

    def due(self, *, most: int, now_ns: int) -> list[str]:
        """Return runs that ended without being cancelled, or got new scores, since they were last compared.

        A run waits up to an hour for its own evaluations, and for those of earlier runs that may become its baseline.
        """
        params = {"runs": most, "waits_after_us": now_ns // 1000 - _LONGEST_WAIT_US}
        return [run_id for (run_id,) in self._due.rows(params, now_us=now_ns // 1000)]

    def is_asked_for(self, tenant: str, project: str, event_type: str) -> bool:
        """Return True if a receiver subscribes to such events of a project."""
        parameters = {"tenant": tenant, "project": project, "type": event_type}
        with self._database.cursor() as cursor:
            ((receivers,),) = cursor.execute(sql.query("run_event_receivers"), parameters).fetchall()
        return bool(receivers)

    def note(self, run_id: str, at_ns: int, event: WebhookEvent | None = None) -> None:
        """Note that a run was compared, and queue its event, in one transaction.

        Raises:
            Overloaded: nothing was stored.
        """

        def write(cursor: duckdb.DuckDBPyConnection) -> None:
            cursor.execute(sql.query("note_run_look"), {"run_id": run_id, "at_us": at_ns // 1000})
            if event is not None:
                queue_event(cursor, event)

        self._writer.store(write, 1)
        if event is not None:
            self._outbox.changed()
