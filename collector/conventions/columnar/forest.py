"""The spans of many traces as one forest, computed for all of them at once."""

import secrets
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Places = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_SPAN_DIGITS: Final = 16
_DEEPEST: Final = 64
"""Maximum number of levels; a deeper trace is read by itself. A guess: no agent's trace is as deep."""

_NIBBLES: Final = np.full(256, 0, dtype=np.uint64)
_NIBBLES[np.frombuffer(b"0123456789abcdef", dtype=np.uint8)] = np.arange(16, dtype=np.uint64)
_SHIFTS: Final = np.arange(4 * (_SPAN_DIGITS - 1), -1, -4, dtype=np.uint64)
_ROOT: Final = "0" * _SPAN_DIGITS


@dataclass(frozen=True, slots=True, kw_only=True)
class Forest:
    """Rows of spans in reading order: by trace, then by start, then by id."""

    rows: Places  # indexes into the table of spans
    trace: Places  # the number of the trace, from 0
    firsts: Places  # by trace: the position of its first span
    parent: Places  # the position of the parent in this order; -1: not in the table
    is_root: Mask  # has no parent, here or elsewhere
    depth: Places
    is_tangled: Mask  # by trace: it has a cycle, too many levels, or a repeated id

    @property
    def traces(self) -> int:
        """Return the number of traces."""
        return len(self.firsts)


def forest_of(spans: pa.Table) -> Forest:
    """Build the forest of spans from `tenant`, `trace_id`, `span_id`, `parent_span_id`, `start_time`."""
    trace = _traces(spans)
    ids, parents = _ids(spans.column("span_id")), _ids(spans.column("parent_span_id"))
    starts = spans.column("start_time").cast(pa.int64()).to_numpy()
    rows = np.lexsort((ids, starts, trace))
    trace, ids, parents = trace[rows], ids[rows], parents[rows]
    firsts = np.flatnonzero(np.diff(trace, prepend=-1))
    is_root = parents == 0
    above, has_twice = _above(trace, ids, parents, is_root)
    depth = np.where(above < 0, 0, -1)
    for _ in range(_DEEPEST):
        lost = np.flatnonzero(depth < 0)
        if not len(lost):
            break
        reached = depth[above[lost]]
        depth[lost] = np.where(reached < 0, -1, reached + 1)
    is_tangled = np.zeros(len(firsts), dtype=np.bool_)
    is_tangled[trace[(depth < 0) | has_twice]] = True
    return Forest(
        rows=rows, trace=trace, firsts=firsts, parent=above, is_root=is_root, depth=depth, is_tangled=is_tangled
    )


def first_of_each(forest: Forest, mask: Mask, *keys: Places) -> Places:
    """Return each trace's first masked span, in the order of `np.lexsort(keys)`, then of position; -1: none."""
    firsts = np.full(forest.traces, -1, dtype=np.int64)
    places = np.flatnonzero(mask)
    if len(places):
        order = places[np.lexsort((places, *(key[places] for key in keys)))] if keys else places
        order = order[::-1]  # numpy keeps the last of several assignments
        firsts[forest.trace[order]] = order
    return firsts


def _traces(spans: pa.Table) -> Places:
    """Return the number of the trace of each span, in the order in which traces come."""
    tenants = spans.column("tenant").combine_chunks().dictionary_encode()
    traces = spans.column("trace_id").combine_chunks().dictionary_encode()
    numbers: Places = traces.indices.to_numpy().astype(np.int64)
    if len(tenants.dictionary) > 1:
        both = tenants.indices.to_numpy().astype(np.int64) * len(traces.dictionary) + numbers
        _, firsts, numbers = np.unique(both, return_index=True, return_inverse=True)
        numbers = np.argsort(np.argsort(firsts))[numbers]
    return numbers


def _ids(column: pa.ChunkedArray) -> npt.NDArray[np.uint64]:
    """Return ids of sixteen hexadecimal digits as numbers; 0 for none."""
    texts = column.combine_chunks().fill_null(_ROOT)
    digits = np.frombuffer(texts.buffers()[2] or b"", dtype=np.uint8)
    start = texts.offset * _SPAN_DIGITS
    nibbles = _NIBBLES[digits[start : start + len(texts) * _SPAN_DIGITS]].reshape(-1, _SPAN_DIGITS)
    numbers: npt.NDArray[np.uint64] = np.bitwise_or.reduce(nibbles << _SHIFTS, axis=1)
    return numbers


def _above(
    trace: Places, ids: npt.NDArray[np.uint64], parents: npt.NDArray[np.uint64], is_root: Mask
) -> tuple[Places, Mask]:
    """Return the row of each span's parent, -1 if missing, and a mask of spans that share their id."""
    secret = np.uint64(secrets.randbits(64) | 1)
    own = ids + trace.astype(np.uint64) * secret
    order = np.argsort(own)
    sought = parents + trace.astype(np.uint64) * secret
    at = np.minimum(np.searchsorted(own[order], sought), len(own) - 1)
    parent_rows = order[at]
    is_here = ~is_root & (ids[parent_rows] == parents) & (trace[parent_rows] == trace)
    has_twice = np.zeros(len(own), dtype=np.bool_)
    has_twice[order[1:]] = own[order[1:]] == own[order[:-1]]
    return np.where(is_here, parent_rows, -1), has_twice
