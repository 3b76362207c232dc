"""Mutes: notifications about a project or a rule that are paused until a time."""

from dataclasses import dataclass
from typing import Final

from storage import sql
from storage.aging import Aging
from storage.engine.database import Database
from storage.errors import Conflict
from storage.ingest.writer import Writer
from storage.limit import Limit
from storage.sql import dict_rows
from storage.versioned import write_rows

MOST_MUTES: Final = 200
"""Maximum number of mutes of one tenant, because each event is checked against all of them. A guess."""

_MUTES: Final = Limit(value=MOST_MUTES, unit="mutes of a tenant", remedy="delete one first")


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertMute:
    """A pause of notifications. `rule` is a name or an id, of a metric monitor too; None means all."""

    tenant: str
    mute_id: str
    project: str | None
    rule: str | None
    until_ns: int
    muted_by: str | None
    created_at_ns: int


class AlertMutes:
    """The mutes of a store. Safe to use from any thread but the writer's."""

    def __init__(self, database: Database, writer: Writer, aging: Aging) -> None:
        self._database = database
        self._writer = writer
        self._aging = aging

    def at(self, at_ns: int, *, tenant: str | None = None, mute_id: str | None = None) -> list[AlertMute]:
        """Return the mutes in effect at an instant, of a tenant plus shared ones (None: all); earliest end first."""
        values = {"tenant": tenant, "mute_id": mute_id, "at_us": at_ns // 1000}
        with self._database.cursor() as cursor:
            cursor.execute(sql.query("alert_mutes"), values)
            return [AlertMute(**row) for row in dict_rows(cursor)]

    def add(self, mute: AlertMute) -> None:
        """Add a mute.

        Raises:
            Conflict: the tenant has as many mutes in effect as it may have.
            Overloaded: nothing was stored.
        """
        values = {name: getattr(mute, name) for name in ("tenant", "mute_id", "project", "rule", "muted_by")}
        values |= {"until_us": mute.until_ns // 1000, "at_us": mute.created_at_ns // 1000, "most": MOST_MUTES}
        if not write_rows(self._writer, sql.query("insert_alert_mute"), values):
            raise Conflict(f"there can be no more than {_MUTES}")

    def delete(self, mute_id: str, at_ns: int) -> None:
        """Delete a mute, and those that are over unless the clock is in doubt.

        Raises:
            Overloaded: nothing was stored.
        """
        values = {"mute_id": mute_id, "at_us": None if self._aging.doubt() is not None else at_ns // 1000}
        self._writer.store(lambda cursor: cursor.execute(sql.query("delete_alert_mutes"), values), 1)
