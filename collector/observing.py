"""What the server does, told to whoever traces it: work by the group and the window, never by the span."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rules.marker import MARKER
from storage.ingest.batch import SpanBatch

Value: TypeAlias = str | int | float | bool
INTERNAL_HEADER: Final = "x-tracejury-internal"
"""Requests with this header are about the server itself, such as those that carry its own traces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedWork:
    """Something that is over."""

    name: str
    began_ns: int  # since the Unix epoch
    kind: Literal["server", "client", "internal"] = "internal"
    failed: str | None = None  # why
    told: Mapping[str, Value | None] = field(default_factory=dict)


Watch: TypeAlias = Callable[[FinishedWork], None]
"""Hears of what is over, from any thread. It neither waits nor raises."""


def is_ours(batch: SpanBatch) -> bool:
    """Whether all in it is about the server itself: then nothing is told of it, or telling would never end."""
    return bool(batch.num_rows) and all(_all_marked(chunk) for chunk in batch.resources.column("attributes").chunks)


def _all_marked(attributes: pa.MapArray) -> bool:
    marks = np.flatnonzero(pc.equal(attributes.keys, MARKER).to_numpy(zero_copy_only=False))
    before = np.searchsorted(marks, attributes.offsets.to_numpy())
    return bool(np.diff(before).all())


def all_ours(spans: pa.Table, columns: Mapping[str, Mapping[str, object]]) -> bool:
    """Whether all spans of a window are about the server; columns are named by the parameters of expressions."""
    marks = [name for name, parameters in columns.items() if MARKER in parameters.values()]
    if not marks:
        return False
    unmarked = pa.array([True] * spans.num_rows, pa.bool_())
    for name in marks:
        unmarked = pc.and_(unmarked, pc.is_null(spans.column(name)).combine_chunks())
    return not pc.any(unmarked).as_py()


def commits_told(watch: Watch) -> Callable[[SpanBatch, int, int], None]:
    """What the writer calls after each commit: what was in it, when it began, and how many rows were new."""

    def committed(batch: SpanBatch, began_ns: int, stored: int) -> None:
        if not is_ours(batch):
            told = {
                "tracejury.spans": batch.spans.num_rows,
                "tracejury.log_records": batch.logs.num_rows,
                "tracejury.stored": stored,
            }
            watch(FinishedWork(name="commit", began_ns=began_ns, told=told))

    return committed


def now_ns() -> int:
    """Nanoseconds since the Unix epoch."""
    return time.time_ns()
