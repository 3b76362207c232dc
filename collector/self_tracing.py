"""Reports of the server's own work, for its traces: one for each group or window, never for each span."""

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
    """A finished piece of work, for the server's own traces."""

    name: str
    began_ns: int  # since the Unix epoch
    kind: Literal["server", "client", "internal"] = "internal"
    failed: str | None = None  # why
    attributes: Mapping[str, Value | None] = field(default_factory=dict)


Watch: TypeAlias = Callable[[FinishedWork], None]
"""Callback for finished work, from any thread. It neither blocks nor raises."""


def is_ours(batch: SpanBatch) -> bool:
    """Return True if a batch is only about the server itself: tracing its storage would cause traces without end."""
    return bool(batch.num_rows) and all(_all_marked(chunk) for chunk in batch.resources.column("attributes").chunks)


def _all_marked(attributes: pa.MapArray) -> bool:
    marks = np.flatnonzero(pc.equal(attributes.keys, MARKER).to_numpy(zero_copy_only=False))
    before = np.searchsorted(marks, attributes.offsets.to_numpy())
    return bool(np.diff(before).all())


def all_ours(spans: pa.Table, columns: Mapping[str, Mapping[str, object]]) -> bool:
    """Return True if all spans of a window are about the server; `columns` holds the parameters of each column."""
    marks = [name for name, parameters in columns.items() if MARKER in parameters.values()]
    if not marks:
        return False
    unmarked = pa.array([True] * spans.num_rows, pa.bool_())
    for name in marks:
        unmarked = pc.and_(unmarked, pc.is_null(spans.column(name)).combine_chunks())
    return not pc.any(unmarked).as_py()


def commit_watcher(watch: Watch) -> Callable[[SpanBatch, int, int], None]:
    """Return the writer's callback after each commit: the batch, when it began, and the number of new rows."""

    def committed(batch: SpanBatch, began_ns: int, stored: int) -> None:
        if not is_ours(batch):
            attributes = {
                "tracejury.spans": batch.spans.num_rows,
                "tracejury.log_records": batch.logs.num_rows,
                "tracejury.stored": stored,
            }
            watch(FinishedWork(name="commit", began_ns=began_ns, attributes=attributes))

    return committed


def now_ns() -> int:
    """Return nanoseconds since the Unix epoch."""
    return time.time_ns()
