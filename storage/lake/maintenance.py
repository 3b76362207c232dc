"""Maintenance of the lake's files: small ones are merged, and unused ones removed."""

import datetime as dt
import itertools
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from deltalake import DeltaTable

from storage.lake.publishing import PARQUET, Lake, reaching
from storage.lake.removing import committed
from storage.lake.tables import LAKE_TABLES, PARTITION

_TARGET_BYTES: Final = 256 << 20
_SMALL_BYTES: Final = _TARGET_BYTES // 2
_READING_H: Final = 1
"""Hours for which replaced files stay, for statements that began before. A guess: no statement may take an hour."""

_WRITING_H: Final = 24
"""Hours for which files without a commit stay, because the commit may be under way. A guess: commits take seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeSize:
    """Size of a lake after its latest maintenance."""

    files: int
    nbytes: int
    at_ns: int


def maintain(lake: Lake, today: dt.date, stopped: Callable[[], bool]) -> LakeSize | None:
    """Merge small files of earlier days, write checkpoints, and remove files that were replaced or never committed.

    Return the size after it; None: it was stopped.

    Raises:
        Unpublished: not now.
    """
    sizes: list[int] = []
    for table in LAKE_TABLES:
        if stopped():
            return None
        with lake.lock, reaching(lake.uri):
            delta = lake.load(table)
            _compact(delta, today, stopped)
            delta.create_checkpoint()
            delta.cleanup_metadata()
            for hours, all_files in ((_READING_H, False), (_WRITING_H, True)):
                delta.vacuum(hours, dry_run=False, enforce_retention_duration=False, full=all_files)
            sizes += delta.get_add_actions(flatten=True).column("size_bytes").to_pylist()
    return LakeSize(files=len(sizes), nbytes=sum(sizes), at_ns=time.time_ns())


def _compact(delta: DeltaTable, today: dt.date, stopped: Callable[[], bool]) -> None:
    files = delta.get_add_actions(flatten=True)
    days = zip(files.column(f"partition.{PARTITION}").to_pylist(), files.column("size_bytes").to_pylist(), strict=True)
    small = Counter(day for day, size in days if size < _SMALL_BYTES and day < today)
    due = sorted(day for day, count in small.items() if count > 1)
    for day in itertools.takewhile(lambda _: not stopped(), due):
        committed(
            delta,
            lambda day=day: delta.optimize.compact(  # type: ignore[misc] # called below, in this turn
                partition_filters=[(PARTITION, "=", str(day))],
                target_size=_TARGET_BYTES,
                max_concurrent_tasks=1,
                writer_properties=PARQUET,
            ),
        )
