"""Records that clients create, replace and delete; a write based on an older version is refused."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Final, Generic, TypeAlias, TypeVar

import duckdb

from storage.engine.database import Database
from storage.errors import Conflict
from storage.ingest.writer import Writer
from storage.limit import Limit

_NOW: Final = "make_timestamp($now_us::BIGINT)"

Text = TypeVar("Text", bound=Any)
Row = TypeVar("Row", bound=Any)

Then: TypeAlias = Callable[[duckdb.DuckDBPyConnection], object]
"""Callback that runs further statements in the transaction of a change."""


def write_rows(
    writer: Writer, statement: str, values: Mapping[str, object], *, then: Then | None = None
) -> list[tuple[Any, ...]]:
    """Run a statement that writes and returns rows, and `then` if it returned any; return the rows once committed.

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
    """Records of one kind, each with a name that is unique within its tenant, and a version that each change raises.

    The statements that callers pass MUST return the id of the record that they wrote. They must write nothing if the
    name is taken, if the tenant has `$most` records, or if the record does not have the version `$version`.
    """

    writer: Writer
    kind: str  # name of the kind in error messages
    most: int  # maximum number of records of a tenant

    def create(self, statement: str, name: str, values: Mapping[str, object]) -> None:
        """Add a record.

        Raises:
            Conflict: the tenant has a record of that name, or has `most` records.
            Overloaded: nothing was stored.
        """
        if not write_rows(self.writer, statement, {**values, "name": name, "most": self.most}):
            limit = Limit(value=self.most, unit=f"{self.kind}s", remedy="delete one first, or choose another name")
            raise Conflict(f"there is a {self.kind} named {name!r}, or there are as many as may be, {limit}")

    def replace(self, statement: str, name: str, values: Mapping[str, object]) -> None:
        """Change a record if its version is still the one that was read.

        Raises:
            Conflict: the record was changed meanwhile, or another one has that name.
            Overloaded: nothing was stored.
        """
        if not write_rows(self.writer, statement, {**values, "name": name}):
            raise Conflict(f"the {self.kind} was changed meanwhile, or another one is named {name!r}")

    def delete(self, statement: str, values: Mapping[str, object], *, then: Then | None = None) -> None:
        """Delete a record if its version is still the one that was read; with `then`, also its dependent rows.

        Raises:
            Conflict: the record was changed since it was read.
            Overloaded: nothing was stored.
        """
        if not write_rows(self.writer, statement, values, then=then):
            raise Conflict(f"the {self.kind} was changed meanwhile")


class Records(Generic[Text, Row]):
    """Records of a declared table. Safe to use from any thread but the writer's.

    The table has a column for each field of `Text`, which must include `name`, and the columns `key`, `tenant`,
    `version`, `created_by`, `created_at` and `updated_at`. Only these names are formatted into the text of statements;
    all values are parameters.
    """

    table: ClassVar[str]
    key: ClassVar[str]  # the column of the id
    kind: ClassVar[str]  # name of the kind in error messages
    most: ClassVar[int]  # maximum number of records of a tenant

    def __init__(self, database: Database, writer: Writer) -> None:
        self._database = database
        self._writer = writer
        self._records = VersionedRecords(writer=writer, kind=self.kind, most=self.most)

    def create(self, record_id: str, text: Text, *, tenant: str, by: str | None, now_us: int) -> None:
        """Add a record.

        Raises:
            Conflict: the tenant has a record of that name, or has `most` records.
            Overloaded: nothing was stored.
        """
        values = asdict(text)
        columns = ", ".join(f'${name} AS "{name}"' for name in values)
        others = f"FROM {self.table} AS other WHERE other.tenant = $tenant"
        statement = (
            f"INSERT INTO {self.table} BY NAME SELECT {columns}, $id AS {self.key}, $tenant AS tenant, 1 AS version, "
            f"$by::VARCHAR AS created_by, {_NOW} AS created_at, {_NOW} AS updated_at "
            f"WHERE NOT EXISTS (SELECT 1 {others} AND other.name = $name) AND (SELECT count(*) {others}) < $most "
            f"RETURNING {self.key}"
        )
        values |= {"id": record_id, "tenant": tenant, "by": by, "now_us": now_us}
        self._records.create(statement, text.name, values)

    def replace(self, row: Row, text: Text, *, now_us: int) -> None:
        """Change a record if its version is still that of `row`.

        Raises:
            Conflict: the record was changed meanwhile, or another one has that name.
            Overloaded: nothing was stored.
        """
        values = asdict(text)
        columns = ", ".join(f'"{name}" = ${name}' for name in values)
        statement = (
            f"UPDATE {self.table} SET {columns}, version = version + 1, updated_at = {_NOW} "  # noqa: S608 - declared
            f"WHERE {self._seen_alone} AND NOT EXISTS (SELECT 1 FROM {self.table} AS other "
            f"WHERE other.tenant = $tenant AND other.name = $name AND other.{self.key} <> $id) RETURNING {self.key}"
        )
        self._records.replace(statement, text.name, values | self._seen(row) | {"now_us": now_us})

    def delete(self, row: Row) -> None:
        """Delete a record with its dependent rows if its version is still that of `row`.

        Raises:
            Conflict: the record was changed since it was read.
            Overloaded: nothing was stored.
        """
        statement = f"DELETE FROM {self.table} WHERE {self._seen_alone} RETURNING {self.key}"  # noqa: S608 - declared
        self._records.delete(statement, self._seen(row), then=self._cascade(row))

    def _cascade(self, _: Row) -> Then | None:
        return None

    @property
    def _seen_alone(self) -> str:
        return f"{self.key} = $id AND tenant = $tenant AND version = $version"

    def _seen(self, row: Row) -> dict[str, object]:
        return {"id": getattr(row, self.key), "tenant": row.tenant, "version": row.version}
