"""Files of the lake that can have the rows of a question, by the bounds of their columns in Delta's log."""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from numpy.typing import NDArray

from storage.ingest.backlog import SEQ_BITS
from storage.lake.catalog import COLD_TABLES
from storage.lake.store_check import STORE_OPTIONS
from storage.lake.tables import PARTITION

Bounds = Mapping[str, tuple[int, int]]
"""The least and the greatest value of columns as the lake has them: nanoseconds, microseconds or days since 1970."""

LEAST, MOST = -(1 << 63), (1 << 63) - 1
DAY_NS: Final = 86_400_000_000_000
_STALE_S: Final = 10.0
"""Files are listed again for a question after so long: what was erased is gone from the next list. A guess."""
_UNSIGNED: Final = frozenset({"trace_key", "call_key", "record_id"})
"""Columns whose bounds in the log are of signed numbers with the same bits."""
_MOVED_BY: Final = {"evaluation": "seq", "decision": "seq", "trace_reading": "start_time", "tool_call": "start_time"}
_BY_TRACE_PART: Final = ("trace_reading", "tool_call")
"""Tables whose rows in the lake are found by the parts of their traces, which may begin up to a day apart. A guess."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Boundary:
    """Limits of the commits that moved, over all names of the directory, and the day before which they came."""

    batch: int
    seq: int
    day_ns: int
    names: frozenset[tuple[object, ...]] = field(default_factory=frozenset)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Files:
    paths: Sequence[str] = ()
    bounds: Mapping[str, tuple[NDArray[np.int64], NDArray[np.int64]]] = field(default_factory=dict)

    def within(self, bounds: Bounds) -> NDArray[np.bool_]:
        """Return which files can have a row within bounds; columns without bounds in the log exclude none."""
        chosen = np.ones(len(self.paths), dtype=bool)
        for column, (least, most) in bounds.items():
            if column in self.bounds:
                low, high = self.bounds[column]
                chosen &= (low <= most) & (high >= least)
        return chosen


class ColdFiles:
    """The files of the lake. Thread-safe."""

    def __init__(self, uri: str) -> None:
        self._uri = uri.rstrip("/")
        self._lock = threading.Lock()
        self._tables: dict[str, DeltaTable] = {}
        self._files: dict[str, tuple[int, _Files]] = {}
        self._listed_s = -_STALE_S
        self._boundary: Boundary | None = None

    def refresh(self, boundary: Boundary) -> None:
        """List the files again if something moved since, or it was long ago."""
        with self._lock:
            if boundary == self._boundary and time.monotonic() - self._listed_s < _STALE_S:
                return
            for name in COLD_TABLES:
                self._list(name)
            self._boundary, self._listed_s = boundary, time.monotonic()

    def forget(self) -> None:
        """List the files again with the next question: one of those in the list is gone."""
        self._listed_s = -_STALE_S

    def _list(self, name: str) -> None:
        uri = f"{self._uri}/{name}"
        try:
            if (delta := self._tables.get(name)) is None:
                delta = self._tables[name] = DeltaTable(uri, storage_options=STORE_OPTIONS)
            else:
                delta.update_incremental()
        except TableNotFoundError:
            return
        if self._files.get(name, (-1, None))[0] != delta.version():
            self._files[name] = delta.version(), _listed(uri, pa.table(delta.get_add_actions(flatten=True)))

    def newest_start_ns(self, boundary: Boundary) -> int:
        """Return a time after which no moved trace started a span."""
        files = self._of("trace_part")
        moved = files.within({"batch": (LEAST, boundary.batch - 1)})
        return int(files.bounds["last_start_time"][1][moved].max()) if moved.any() else LEAST

    def starts_ns(self, boundary: Boundary) -> list[tuple[int, int]]:
        """Return the first and the last start of the parts of traces in each file that has some that moved."""
        files = self._of("trace_part")
        moved = files.within({"batch": (LEAST, boundary.batch - 1)})
        low, high = files.bounds.get("start_time", (np.empty(0, np.int64),) * 2)
        return list(zip(low[moved].tolist(), high[moved].tolist(), strict=True))

    def choose(self, boundary: Boundary, scans: Mapping[str, Sequence[Bounds]]) -> dict[str, list[str]]:
        """Return the files by table that can have moved rows within one of the bounds of that table."""
        parts = list(scans.get("trace_part", ()))
        for name in _BY_TRACE_PART:
            parts += [_of_their_parts(bounds) for bounds in scans.get(name, ())]
        latest_ns = self.newest_start_ns(boundary)
        limits = {"batch": boundary.batch - 1, "seq": boundary.seq - 1, "start_time": latest_ns}
        chosen = {}
        for name, alternatives in {**scans, "trace_part": parts}.items():
            files = self._of(name)
            column = _MOVED_BY.get(name, "batch")
            within = [files.within(bounds) for bounds in alternatives]
            places = np.logical_or.reduce([*within, np.zeros(len(files.paths), dtype=bool)])
            places &= files.within({column: (LEAST, limits[column])})
            chosen[name] = [files.paths[place] for place in np.flatnonzero(places).tolist()]
        return chosen

    def days_of(self, table: str, bounds: Bounds) -> tuple[int, int]:
        """Return the days before and after which no file of a table has rows within bounds."""
        files = self._of(table)
        within = files.within(bounds)
        low, high = files.bounds.get(PARTITION, (np.empty(0, np.int64),) * 2)
        return (int(low[within].min()), int(high[within].max())) if within.any() else (0, -1)

    def _of(self, name: str) -> _Files:
        return self._files.get(name, (-1, _Files()))[1]


def of_commits(first: int, last: int) -> tuple[int, int]:
    """Return the first and the last number of a span of these commits."""
    return first << SEQ_BITS, ((last + 1) << SEQ_BITS) - 1


def _of_their_parts(bounds: Bounds) -> Bounds:
    if "start_time" not in bounds:
        return {}
    first_ns, last_ns = bounds["start_time"]
    return {"last_start_time": (max(first_ns, LEAST + DAY_NS) - DAY_NS, MOST), "start_time": (LEAST, last_ns)}


def _listed(uri: str, actions: pa.Table) -> _Files:
    bounds = {}
    for name in actions.column_names:
        kind, _, column = name.partition(".")
        if kind == "partition":
            days = _numbers(actions, name, MOST)
            bounds[column] = days, days
        elif kind == "min" and column not in _UNSIGNED and _is_whole(actions.schema.field(name).type):
            bounds[column] = _numbers(actions, name, LEAST), _numbers(actions, f"max.{column}", MOST)
    paths = [f"{uri}/{unquote(path)}" for path in actions.column("path").to_pylist()]
    return _Files(paths=paths, bounds=bounds)


def _is_whole(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_temporal(kind))


def _numbers(actions: pa.Table, name: str, missing: int) -> NDArray[np.int64]:
    column = actions.column(name)
    if pa.types.is_date(column.type):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz))
    numbers = np.asarray(column.cast(pa.int64()).fill_null(missing).to_numpy(), dtype=np.int64)
    # Delta cuts times in the log to milliseconds.
    is_cut = name.startswith("max.") and pa.types.is_timestamp(column.type)
    return np.where(numbers == missing, numbers, numbers + 999) if is_cut else numbers
