"""Choice of the lake's files for a query: Delta's log has the bounds of each file's numbers and times."""

import datetime as dt
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import DeltaError
from numpy.typing import NDArray

from storage.errors import Overloaded, Unpublished
from storage.ingest.backlog import SEQ_BITS
from storage.lake.catalog import COLD_TABLES
from storage.lake.deltas import GREATEST, DeltaTables, LakeRows, scan
from storage.lake.tables import JOB_RESULTS, PARTITION

Bounds = Mapping[str, tuple[int, int]]
"""The least and the greatest value of columns as the lake has them: nanoseconds, microseconds or days since 1970."""

LEAST, MOST = -(1 << 63), (1 << 63) - 1
DAY_NS: Final = 86_400_000_000_000
_STALE_S: Final = 10
"""A query lists the files again if the list is older; erased files stay in it until then. A guess."""
_UNSIGNED: Final = frozenset({"trace_key", "call_key", "record_id"})
"""Unsigned columns, stored as signed numbers with the same bits, so that their bounds in the log have another order."""
_MOVED_BY: Final = {"evaluation": "seq", "decision": "seq", "trace_reading": "start_time", "tool_call": "start_time"}
_BY_TRACE_PART: Final = ("trace_reading", "tool_call")
"""Tables whose cold rows are found through the parts of their traces. Parts of one trace may begin up to a day apart, a
guess."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of what has moved: commits below `batch` and spans below `seq`, received before `day_ns`.

    They are the highest over all ids of the directory; `names` are the single boundaries.
    """

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
        self.required: Callable[[], LakeRows] = list
        """Function that returns what the lake must have. Called while files are listed."""

        self._lock = threading.Lock()
        self._deltas = DeltaTables(uri)
        self._newest: tuple[object, int] = (None, LEAST)  # of which files and limits, and the time
        self._files: dict[str, tuple[int, _Files]] = {}
        self._limits: Limits | None = None
        self._until_s = 0.0
        self._failure: Exception | None = None

    def forget(self) -> None:
        """Make the next choice list the files again, because a listed file is gone."""
        with self._lock:  # after a listing under way, which may have begun before the file was gone
            self._until_s = 0.0

    def _refresh(self, limits: Limits, *, may_be_old: bool) -> None:
        """List the files, if rows have moved since, or if the list is stale and `may_be_old` is false."""
        if limits == self._limits and (may_be_old or time.monotonic() < self._until_s):
            return
        with self._lock:
            if limits == self._limits and time.monotonic() < self._until_s:
                return
            try:
                rows = self.required()
                for name in COLD_TABLES:
                    self._list(name, rows)
                self._note_newest(limits)
                self._failure = None
            except (DeltaError, OSError, Unpublished) as error:  # an unavailable store; hot rows can be read
                self._failure = error
            self._limits, self._until_s = limits, time.monotonic() + _STALE_S

    def _list(self, name: str, rows: LakeRows) -> None:
        if (delta := self._deltas.load(name, rows)) is None:  # such as a directory that is not mounted
            if name == JOB_RESULTS:  # which came with a later version
                return
            raise FileNotFoundError(f"{self._deltas.uri}/{name} does not exist")
        if self._files.get(name, (-1, None))[0] != delta.version():
            uri = f"{self._deltas.uri}/{name}"
            self._files[name] = delta.version(), _listed(uri, pa.table(delta.get_add_actions(flatten=True)))

    def newest_start_ns(self, limits: Limits) -> int:
        """Return a time after which no span of a moved trace starts; an estimate while the store cannot be reached."""
        self._refresh(limits, may_be_old=True)
        newest_ns = self._newest[1]
        return newest_ns if self._failure is None else max(newest_ns, limits.day_ns)

    def _note_newest(self, limits: Limits) -> None:
        """Note when the latest moved span starts; files that also have rows which did not move are read for it."""
        files = self._of("trace_part")
        moved = files.within({"batch": (LEAST, limits.batch - 1)})
        key = limits.batch, [files.paths[place] for place in np.flatnonzero(moved).tolist()]
        if key == self._newest[0] or not moved.any():
            return
        is_cut = moved & files.within({"batch": (limits.batch, MOST)})
        starts = files.bounds["last_start_time"][1]
        newest_ns = int(starts[moved & ~is_cut].max(initial=LEAST))
        if (starts[is_cut] > newest_ns).any() and (delta := self._deltas.load("trace_part")) is not None:
            within = {"batch": (LEAST, limits.batch - 1), "last_start_time": (newest_ns, MOST)}
            rows = scan(delta, ["last_start_time"], where=within).read_all()
            newest_ns = max(newest_ns, pc.max(rows.column(0)).as_py() or LEAST)
        self._newest = key, newest_ns

    def choose(self, limits: Limits, scans: Mapping[str, Sequence[Bounds]]) -> dict[str, list[str]]:
        """Return for each table the files that may have moved rows within one of the scans' bounds.

        Raises:
            Overloaded: the store cannot be reached.
        """
        most = {"batch": limits.batch - 1, "seq": limits.seq - 1, "start_time": self.newest_start_ns(limits)}
        scans = {name: [each for each in bounds if not _is_after(each, most)] for name, bounds in scans.items()}
        if not any(scans.values()):
            return {}
        self._refresh(limits, may_be_old=False)
        if self._failure is not None:
            day = dt.datetime.fromtimestamp(limits.day_ns // 10**9, dt.UTC).date()
            raise Overloaded(
                f"the lake cannot be read now ({self._failure}); ask about a time after {day}, or try again later",
                retry_after_s=_STALE_S,
            ) from self._failure
        parts = list(scans.get("trace_part", ()))
        for name in _BY_TRACE_PART:
            parts += [_of_their_parts(bounds) for bounds in scans.get(name, ())]
        if scans.get("superseded"):  # its rows are found through the results that are read, or else all of them
            scans = {"evaluation": [{}], **scans}
        chosen = {}
        for name, alternatives in {**scans, "trace_part": parts}.items():
            files = self._of(name)
            column = _MOVED_BY.get(name, "batch")
            within = [files.within(bounds) for bounds in alternatives]
            places = np.logical_or.reduce([*within, np.zeros(len(files.paths), dtype=bool)])
            places &= files.within({column: (LEAST, most[column])})
            chosen[name] = [files.paths[place] for place in np.flatnonzero(places).tolist()]
        return chosen

    def first_day_of(self, table: str, bounds: Bounds) -> int:
        """Return the first day whose files of a table may have rows within bounds."""
        files = self._of(table)
        days, _ = files.bounds.get(PARTITION, (np.empty(0, np.int64),) * 2)
        return int(days[files.within(bounds)].min(initial=MOST))

    def _of(self, name: str) -> _Files:
        return self._files.get(name, (-1, _Files()))[1]


def _is_after(bounds: Bounds, most: Mapping[str, int]) -> bool:
    return any(column in bounds and bounds[column][0] > last for column, last in most.items())


def of_commits(first: int, last: int) -> tuple[int, int]:
    """Return the first and the last number of a span of these commits."""
    return first << SEQ_BITS, min(((last + 1) << SEQ_BITS) - 1, GREATEST)


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
