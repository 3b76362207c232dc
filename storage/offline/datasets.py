"""Datasets: cases that an application is run on, in numbered versions that never change.

The content of an item is stored once, however many versions have the item; a version is a list of items. Items are
stored first, and become visible with their version, in a later transaction. An interrupted import leaves items without
a version, which a repeated import reuses.
"""

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, Literal, TypeAlias

import duckdb
import pyarrow as pa

from storage import sql
from storage.engine.arrow import arrow_table
from storage.engine.database import Database
from storage.errors import Conflict, NotFound, Stale
from storage.ingest.writer import Writer
from storage.limit import Limit
from storage.sql import dict_rows
from storage.versioned import write_rows

MOST_ITEMS: Final = 1_000_000
"""Maximum number of items of one version. A guess: test sets are smaller, and reading the ids of this many items takes
200 MB."""

VERSION: Final = Limit(value=MOST_ITEMS, unit="items", remedy="make several datasets of it")

_ITEMS_AT_ONCE: Final = 8_192
"""Maximum number of items stored or deleted in one transaction; the same as for spans."""

_PAGE: Final = 2_000  # items that are read at once for an export

Mode: TypeAlias = Literal["replace", "append"]
"""`replace`: the version has only the given items. `append`: it also has the items of the version before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewItem:
    """An item to store. The texts are JSON objects; `digest` is equal for items with equal content."""

    item_id: str
    digest: str
    inputs: str
    expected_outputs: str
    metadata: str
    source: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Item(NewItem):
    """An item of a version."""

    ordinal: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetText:
    """Description of a dataset. Schemas are JSON."""

    description: str = ""
    tags: Sequence[str] = ()
    input_schema: str | None = None
    expected_schema: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """A dataset. `latest_version` is 0 if it has no versions."""

    tenant: str
    dataset_id: str
    name: str
    description: str
    tags: Sequence[str]
    input_schema: str | None
    expected_schema: str | None
    version: int  # of its description, not of its items
    created_at_ns: int
    updated_at_ns: int
    latest_version: int
    latest_item_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A version of a dataset. The counts compare it with the version before it."""

    dataset_id: str
    version: int
    version_key: int
    description: str
    item_count: int
    added: int
    removed: int
    changed: int
    created_by: str | None
    created_at_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionChange:
    """An item that differs between two versions. The fields of a version that lacks the item are None."""

    status: Literal["ADDED", "REMOVED", "CHANGED"]
    item_id: str
    inputs_before: str | None
    expected_before: str | None
    metadata_before: str | None
    inputs_after: str | None
    expected_after: str | None
    metadata_after: str | None


class Datasets:
    """The datasets of a store. Thread-safe."""

    def __init__(self, database: Database, writer: Writer) -> None:
        self._database = database
        self._writer = writer

    def all(self, tenant: str | None) -> list[Dataset]:
        """Return the datasets of a tenant plus shared ones, by name; None returns those of all tenants."""
        return self._datasets(tenant, None)

    def named(self, tenant: str | None, key: str) -> list[Dataset]:
        """Return datasets by name or id, of a tenant plus shared ones (None: of all). A tenant's names are unique."""
        return self._datasets(tenant, key)

    def create(self, tenant: str, name: str, text: DatasetText, *, now_us: int) -> Dataset:
        """Add a dataset without versions.

        Raises:
            Conflict: another dataset has the name.
            Overloaded: the database cannot be written now.
        """
        values = _values(text) | {"tenant": tenant, "dataset_id": uuid.uuid4().hex, "name": name, "now_us": now_us}
        if not write_rows(self._writer, sql.query("insert_dataset"), values):
            raise Conflict(f"there is a dataset {name!r} already")
        (made,) = self._datasets(None, str(values["dataset_id"]))
        return made

    def change(self, dataset: Dataset, text: DatasetText, *, now_us: int) -> Dataset:
        """Change the description of a dataset, if it still has this version.

        Raises:
            Stale: the dataset was changed since it was read.
            NotFound: the dataset was deleted.
            Overloaded: the database cannot be written now.
        """
        values = _values(text) | {"dataset_id": dataset.dataset_id, "version": dataset.version, "now_us": now_us}
        if not write_rows(self._writer, sql.query("update_dataset"), values):
            raise Stale(self._current(dataset))
        (changed,) = self._datasets(None, dataset.dataset_id)
        return changed

    def delete(self, dataset: Dataset, *, now_us: int) -> None:
        """Delete a dataset with its versions and items, if it still has this version; runs on it stay.

        Raises:
            Stale: the dataset was changed since it was read.
            NotFound: the dataset was deleted before.
            Overloaded: the dataset may be deleted, with some items left that no request returns.

        """
        values = {"dataset_id": dataset.dataset_id, "version": dataset.version, "now_us": now_us}
        if not write_rows(self._writer, sql.query("mark_dataset_deleted"), values):
            raise Stale(self._current(dataset))
        of_it = {"dataset_id": dataset.dataset_id}

        def forget(cursor: duckdb.DuckDBPyConnection) -> None:
            cursor.execute(sql.query("delete_dataset_members"), of_it)
            cursor.execute(sql.query("delete_dataset_versions"), of_it)

        self._writer.store(forget, 1)
        while self._deleted_items(dataset.dataset_id):
            pass

    def add_items(self, dataset: Dataset, items: Iterable[NewItem], *, now_us: int) -> pa.Table:
        """Store the items that are not stored yet; return all of them for `add_version`.

        Raises:
            Overloaded: some of them may be stored.
        """
        values = {"tenant": dataset.tenant, "dataset_id": dataset.dataset_id, "now_us": now_us}
        names: list[pa.Table] = []
        first, rest = 0, iter(items)
        while batch := list(islice(rest, _ITEMS_AT_ONCE)):
            table = _table(batch, first)
            first += len(batch)

            def store(cursor: duckdb.DuckDBPyConnection, rows: pa.Table = table) -> None:
                cursor.register("new_items", rows)
                cursor.execute(sql.query("insert_dataset_items"), values)

            self._writer.store(store, len(batch))
            names.append(table.select(["ordinal", "item_id", "digest"]))
        return pa.concat_tables(names) if names else _table([], 0).select(["ordinal", "item_id", "digest"])

    def add_version(
        self,
        dataset: Dataset,
        members: pa.Table,
        *,
        mode: Mode,
        description: str = "",
        created_by: str | None = None,
        now_us: int,
    ) -> tuple[Version, bool]:
        """Add a version with these stored items; return it and True, or the latest one and False if that has the same.

        Raises:
            Conflict: the version would have no items, or too many.
            NotFound: the dataset was deleted.
            Overloaded: the database cannot be written now.
        """
        made = _NextVersion(
            dataset=dataset,
            members=members,
            mode=mode,
            values={"description": description, "created_by": created_by, "now_us": now_us},
        )
        self._writer.store(made.run, members.num_rows)
        (version,) = self.versions(dataset, version=made.number)
        return version, made.is_new

    def versions(self, dataset: Dataset, *, version: int | None = None, skip: int = 0, most: int = 1) -> list[Version]:
        """Return the versions of a dataset, newest first, or the one of that number."""
        parameters = {"dataset_id": dataset.dataset_id, "version": version, "versions": most, "skip": skip}
        with self._database.cursor() as cursor:
            cursor.execute(sql.query("dataset_versions"), parameters)
            return [Version(**row) for row in dict_rows(cursor)]

    def items(self, version: Version, *, first: int, most: int) -> list[Item]:
        """Return items of a version from a position on, in their order."""
        parameters = {"version_key": version.version_key, "first": first, "items": most}
        return self._items(sql.query("items_of_version"), parameters)

    def items_by_id(self, version: Version, ids: Sequence[str]) -> list[Item]:
        """Return the items of a version that have one of these ids."""
        return self._items(sql.query("items_by_id"), {"version_key": version.version_key, "ids": list(ids)})

    def items_of_run(self, dataset_id: str, version: int, ids: Sequence[str]) -> dict[str, Item]:
        """Return by id the items that a run's version of a dataset has; none if the dataset was deleted."""
        with self._database.cursor() as cursor:
            parameters = {"dataset_id": dataset_id, "version": version, "versions": 1, "skip": 0}
            cursor.execute(sql.query("dataset_versions"), parameters)
            versions = [Version(**row) for row in dict_rows(cursor)]
        return {item.item_id: item for each in versions for item in self.items_by_id(each, ids)}

    def every_item(self, version: Version) -> Iterator[Item]:
        """Yield all items of a version in their order, read in pages."""
        first = 0
        while page := self.items(version, first=first, most=_PAGE):
            yield from page
            first += len(page)

    def changes(self, earlier: Version, later: Version, *, skip: int, most: int) -> tuple[list[VersionChange], int]:
        """Return the differences between two versions, and how many items differ in all."""
        keys = {"earlier_key": earlier.version_key, "later_key": later.version_key}
        with self._database.cursor() as cursor:
            cursor.execute(sql.query("changes_of_versions"), keys | {"changes": most, "skip": skip})
            rows = dict_rows(cursor)
        if skip and not rows:  # the rows tell the total
            return [], self.changes(earlier, later, skip=0, most=1)[1]
        total = max((row.pop("total") for row in rows), default=0)
        return [VersionChange(**row) for row in rows], total

    def _items(self, select: str, parameters: Mapping[str, object]) -> list[Item]:
        with self._database.cursor() as cursor:
            cursor.execute(select, parameters)
            return [Item(**row) for row in dict_rows(cursor)]

    def _datasets(self, tenant: str | None, key: str | None) -> list[Dataset]:
        with self._database.cursor() as cursor:
            cursor.execute(sql.query("datasets"), {"tenant": tenant, "key": key})
            return [Dataset(**row) for row in dict_rows(cursor)]

    def _current(self, dataset: Dataset) -> int:
        datasets = self._datasets(None, dataset.dataset_id)
        if not datasets:
            raise NotFound(f"there is no dataset {dataset.name!r} any more")
        return datasets[0].version

    def _deleted_items(self, dataset_id: str) -> int:
        deleted: list[int] = []

        def delete(cursor: duckdb.DuckDBPyConnection) -> None:
            values = {"dataset_id": dataset_id, "items": _ITEMS_AT_ONCE}
            ((rows,),) = cursor.execute(sql.query("delete_dataset_items"), values).fetchall()
            deleted.append(rows)

        self._writer.store(delete, _ITEMS_AT_ONCE)
        return deleted[0]


@dataclass(slots=True, kw_only=True)
class _NextVersion:
    """A version, computed within the writer's transaction, so that no other version is added meanwhile."""

    dataset: Dataset
    members: pa.Table
    mode: Mode
    values: dict[str, object]
    number: int = 0
    is_new: bool = False

    def run(self, cursor: duckdb.DuckDBPyConnection) -> None:
        of_it = {"dataset_id": self.dataset.dataset_id}
        if not cursor.execute(sql.query("datasets"), {"tenant": None, "key": self.dataset.dataset_id}).fetchall():
            raise NotFound(f"there is no dataset {self.dataset.name!r} any more")
        latest = cursor.execute(sql.query("latest_dataset_version"), of_it).fetchone()
        number, version_key = latest or (0, -1)
        cursor.register("wanted_items", self.members)
        staged = sql.query("replaced_members") if self.mode == "replace" else sql.query("appended_members")
        before = {"version_key": version_key}
        parameters = of_it | before if "$version_key" in staged else of_it
        cursor.register("next_member", arrow_table(cursor, staged, parameters))
        ((items, added, removed, changed, moved),) = cursor.execute(sql.query("compare_members"), before).fetchall()
        if not 0 < items <= MOST_ITEMS:
            raise Conflict(f"this version would have {items:,} items, and one has at least 1 and at most {VERSION}")
        if latest is not None and not (added or removed or changed or moved):
            self.number = number
            return
        counts = {"items": items, "added": added, "removed": removed, "changed": changed, "version": number + 1}
        row = {"tenant": self.dataset.tenant} | of_it | counts | self.values
        ((key,),) = cursor.execute(sql.query("insert_dataset_version"), row).fetchall()
        cursor.execute(sql.query("insert_dataset_members"), {"version_key": key})
        self.number, self.is_new = number + 1, True


def _values(text: DatasetText) -> dict[str, object]:
    return {
        "description": text.description,
        "tags": list(text.tags),
        "input_schema": text.input_schema,
        "expected_schema": text.expected_schema,
    }


def _table(items: Sequence[NewItem], first: int) -> pa.Table:
    columns: dict[str, pa.Array] = {"ordinal": pa.array(range(first, first + len(items)), pa.int32())}
    for name in ("item_id", "digest", "inputs", "expected_outputs", "metadata", "source"):
        columns[name] = pa.array([getattr(item, name) for item in items], pa.string())
    return pa.table(columns)
