"""Opening and scanning of the lake's Delta tables."""

import functools
import operator
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from pyarrow.dataset import Expression, field

from storage.errors import Unpublished
from storage.lake.store_check import STORE_OPTIONS
from storage.lake.tables import PARTITION, columns_with_bounds, delta_schema

LakeRows: TypeAlias = Sequence[tuple[str, str, int]]
"""Numbers up to which a lake must have rows, by the name of their directory and their table."""

Bounds: TypeAlias = Mapping[str, tuple[object, object]]
"""The least and the greatest value of columns."""

GREATEST: Final = (1 << 63) - 1
_LOG_DAYS: Final = "interval 1 days"
_READAHEAD: Final = 2  # batches, and files, that are read ahead, so that a scan takes little memory; a guess


class DeltaTables:
    """The tables of a lake, opened once and then brought up to date. For one thread at a time."""

    def __init__(self, uri: str) -> None:
        self.uri = uri.rstrip("/")
        self._tables: dict[str, DeltaTable] = {}

    def load(self, name: str, rows: LakeRows = ()) -> DeltaTable | None:
        """Return a table as of now, which has at least these rows, or None if there is none.

        Raises:
            Unpublished: it lacks rows, so this is another lake, or an earlier state.
        """
        try:
            delta = self._tables.pop(name, None)  # kept only if all is well
            if delta is None:
                delta = DeltaTable(f"{self.uri}/{name}", storage_options=STORE_OPTIONS)
            else:
                delta.update_incremental()
            self._tables[name] = delta
        except TableNotFoundError:
            delta = None
        for directory_id, table, number in rows:
            if table == name and number > ((delta and delta.transaction_version(directory_id)) or 0):
                self._tables.pop(name, None)
                raise Unpublished(
                    f"{self.uri} lacks traces that moved to the lake: its table {name} does not have the rows up to"
                    f" number {number} of {directory_id}. It is empty, another lake, or an older state. Mount or"
                    " restore the right one, or set `lake` to its place"
                )
        return delta

    def create(self, name: str, columns: pa.Schema) -> DeltaTable:
        """Return a table that does not exist yet, made with the columns of the database's table."""
        schema = delta_schema(columns)
        self._tables[name] = DeltaTable.create(
            f"{self.uri}/{name}",
            schema=schema,
            mode="ignore",
            partition_by=[PARTITION],
            configuration={
                "delta.dataSkippingStatsColumns": columns_with_bounds(schema),
                "delta.logRetentionDuration": _LOG_DAYS,
            },
            storage_options=STORE_OPTIONS,
        )
        return self._tables[name]

    def forget(self, name: str) -> None:
        """Open a table anew the next time."""
        self._tables.pop(name, None)


def scan(
    delta: DeltaTable, columns: Sequence[str], *, where: Mapping[str, tuple[object, object]]
) -> pa.RecordBatchReader:
    """Read columns of the rows whose values are within bounds, inclusive; files outside the bounds are not read."""
    conditions = [(_compared(name, low) >= low) & (_compared(name, low) <= high) for name, (low, high) in where.items()]
    scanner = delta.to_pyarrow_dataset().scanner(
        columns=list(columns),
        filter=functools.reduce(operator.and_, conditions),
        batch_readahead=_READAHEAD,
        fragment_readahead=_READAHEAD,
    )
    return scanner.to_reader()


def _compared(name: str, value: object) -> Expression:
    # Merged files have columns of type `string_view`, which Arrow cannot compare with a `string`.
    return field(name).cast(pa.string()) if isinstance(value, str) else field(name)
