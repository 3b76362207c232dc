"""Saved views: lists of traces that somebody named, so that others open them."""

from dataclasses import asdict, dataclass
from typing import Final

from storage import sql
from storage.engine.database import Database
from storage.ingest.writer import Writer
from storage.sql import named
from storage.versioned import VersionedRecords

MOST_VIEWS: Final = 200
"""Of one tenant. A guess: more than people choose from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedViewText:
    """What somebody says of a view: its name, and the query of the address of its list."""

    name: str
    project: str | None  # that its filters name
    query: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedView(SavedViewText):
    """A saved view."""

    tenant: str
    view_id: str
    version: int
    created_by: str | None  # the name of a key
    created_us: int
    updated_us: int


class SavedViews:
    """The saved views of a store. Safe to use from any thread but the writer's."""

    def __init__(self, database: Database, writer: Writer) -> None:
        self._database = database
        self._records = VersionedRecords(writer=writer, kind="saved view", most=MOST_VIEWS)

    def all(self, *, tenant: str | None = None) -> list[SavedView]:
        """The saved views of a tenant and of none, by name (None for all)."""
        return self._found(tenant, None)

    def get(self, view_id: str, *, tenant: str | None = None) -> SavedView | None:
        """A saved view; None where there is none."""
        return next(iter(self._found(tenant, view_id)), None)

    def create(self, view_id: str, text: SavedViewText, *, tenant: str, by: str | None, now_us: int) -> None:
        """Add one.

        Raises:
            Conflict: the tenant has one of that name, or has as many as it may have.
            Overloaded: nothing was stored.
        """
        values = asdict(text) | {"tenant": tenant, "view_id": view_id, "created_by": by, "now_us": now_us}
        self._records.create(sql.query("insert_saved_view"), text.name, values)

    def replace(self, view: SavedView, text: SavedViewText, *, now_us: int) -> None:
        """Change one, if it is still the one that was looked at.

        Raises:
            Conflict: it was changed meanwhile, or another one has that name.
            Overloaded: nothing was stored.
        """
        values = asdict(text) | {"tenant": view.tenant, "view_id": view.view_id, "version": view.version}
        self._records.replace(sql.query("update_saved_view"), text.name, values | {"now_us": now_us})

    def delete(self, view: SavedView) -> None:
        """Delete one, if it is still the one that was looked at.

        Raises:
            Conflict: it was changed meanwhile.
            Overloaded: nothing was stored.
        """
        self._records.delete(sql.query("delete_saved_view"), {"view_id": view.view_id, "version": view.version})

    def _found(self, tenant: str | None, view_id: str | None) -> list[SavedView]:
        with self._database.cursor() as cursor:
            cursor.execute(sql.query("saved_views"), {"tenant": tenant, "view_id": view_id})
            return [SavedView(**row) for row in named(cursor)]
