"""Saved views: named lists of traces, for sharing."""

from dataclasses import dataclass
from typing import Final

from storage import sql
from storage.sql import dict_rows
from storage.versioned import Records

MOST_VIEWS: Final = 200
"""Maximum number of views of one tenant. A guess: more than a menu can offer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedViewText:
    """The part of a view that a client writes: its name, and the query of its list."""

    name: str
    project: str | None  # the project in the filters of `query`
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


class SavedViews(Records[SavedViewText, SavedView]):
    """The saved views of a store."""

    table, key, kind, most = "saved_view", "view_id", "saved view", MOST_VIEWS

    def find(self, tenant: str | None, view_id: str | None = None) -> list[SavedView]:
        """Return the views of a tenant plus shared ones (None: all) by name, or the one with an id."""
        with self._database.cursor() as cursor:
            cursor.execute(sql.query("saved_views"), {"tenant": tenant, "view_id": view_id})
            return [SavedView(**row) for row in dict_rows(cursor)]
