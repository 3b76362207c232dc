"""Opening and scanning of the lake's Delta tables."""

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from pyarrow.dataset import Expression, field

from storage.lake.store_check import STORE_OPTIONS
from storage.lake.tables import PARTITION, columns_with_bounds, delta_schema

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

    def load(self, name: str) -> DeltaTable | None:
        """Return a table as of now, or None if there is none."""
        delta = self._tables.get(name)
        if delta is not None:
            delta.update_incremental()
            return delta
        try:
            delta = DeltaTable(f"{self.uri}/{name}", storage_options=STORE_OPTIONS)
        except TableNotFoundError:
            return None
        self._tables[name] = delta
        return delta

    def load_or_create(self, name: str, columns: Callable[[], pa.Schema]) -> DeltaTable:
        """Return a table as of now; one that does not exist is made with the columns of the database's table."""
        delta = self.load(name)
        if delta is not None:
            return delta
        schema = delta_schema(columns())
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
