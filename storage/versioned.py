"""Records that clients create, replace and delete: whoever looked at an older version of one overwrites nothing."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import duckdb

from storage.errors import Conflict
from storage.ingest.writer import Writer
from storage.limit import Limit

Then: TypeAlias = Callable[[duckdb.DuckDBPyConnection], object]
"""What else belongs to a change, in its transaction."""


def written(
    writer: Writer, statement: str, values: Mapping[str, object], *, then: Then | None = None
) -> list[tuple[Any, ...]]:
    """What a statement that writes a row returns, once that is stored; with `then` if it wrote one.

    Raises:
        Overloaded: nothing was stored.
    """
    rows: list[tuple[Any, ...]] = []

    def write(cursor: duckdb.DuckDBPyConnection) -> None:
        rows[:] = cursor.execute(statement, dict(values)).fetchall()
        if rows and then is not None:
            then(cursor)

    writer.store(write, 1)
    return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionedRecords:
    """Records of one kind, each with a name that no other of its tenant has, and a version that each change raises.

    A statement returns the id of what it wrote. It writes nothing where the name is taken, where the tenant has `$most`
    of them, or where the record does not have the `$version` that was looked at.
    """

    writer: Writer
    kind: str  # as people call it
    most: int  # of one tenant

    def create(self, statement: str, name: str, values: Mapping[str, object]) -> None:
        """Add one.

        Raises:
            Conflict: the tenant has one of that name, or has as many as it may have.
            Overloaded: nothing was stored.
        """
        if not written(self.writer, statement, {**values, "name": name, "most": self.most}):
            limit = Limit(value=self.most, unit=f"{self.kind}s", remedy="delete one first, or choose another name")
            raise Conflict(f"there is a {self.kind} named {name!r}, or there are as many as may be, {limit}")

    def replace(self, statement: str, name: str, values: Mapping[str, object]) -> None:
        """Change one, if it is still the one that was looked at.

        Raises:
            Conflict: it was changed meanwhile, or another one has that name.
            Overloaded: nothing was stored.
        """
        if not written(self.writer, statement, {**values, "name": name}):
            raise Conflict(f"the {self.kind} was changed meanwhile, or another one is named {name!r}")

    def delete(self, statement: str, values: Mapping[str, object], *, then: Then | None = None) -> None:
        """Delete one, if it is still the one that was looked at; with `then`, what belongs to it.

        Raises:
            Conflict: it was changed meanwhile.
            Overloaded: nothing was stored.
        """
        if not written(self.writer, statement, values, then=then):
            raise Conflict(f"the {self.kind} was changed meanwhile")
