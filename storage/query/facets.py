"""Facets: the most frequent values of traces, with the number of traces that have each, counted without sorting."""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True, slots=True, kw_only=True)
class FacetValue:
    """A value, and the number of traces that have it."""

    value: str
    traces: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Facet:
    """The most frequent values of one property of traces, and the number of distinct values."""

    values: Sequence[FacetValue] = ()
    many: int = 0


def facet_of_column(column: pa.ChunkedArray, most: int) -> Facet:
    """Return the most frequent values of a column that has a row for each trace."""
    counts = pc.value_counts(column.combine_chunks())
    values = [
        FacetValue(value=value, traces=traces)
        for value, traces in zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist(), strict=True)
    ]
    return Facet(values=_first(values, most), many=len(values))


def facet_of_groups(groups: pa.Table, name: str, *, traces: int, most: int) -> Facet:
    """Return the most frequent values of a column, counting each trace once per value.

    A row has a value, and the `numbers` (indices) of traces that have it; rows with the same value may repeat traces.
    Empty values are skipped, and counting stops at values too rare to be among the `most`.
    """
    held = groups.filter(pc.not_equal(groups[name], "")).combine_chunks()
    if not held.num_rows:
        return Facet()
    coded = held[name].combine_chunks().dictionary_encode()
    codes = coded.indices.to_numpy()
    lists = held["numbers"].combine_chunks()
    rows = np.bincount(codes, weights=pc.list_value_length(lists).to_numpy())
    values: list[FacetValue] = []
    least: list[int] = []  # heap of the `most` greatest counts so far
    for code in np.argsort(-rows, kind="stable"):
        if len(least) == most and rows[code] < least[0]:
            break
        seen = np.zeros(traces, dtype=bool)
        for numbers in _numbers(lists, codes, code):
            seen[numbers] = True
        count = int(np.count_nonzero(seen))
        values.append(FacetValue(value=coded.dictionary[int(code)].as_py(), traces=count))
        (heapq.heappush if len(least) < most else heapq.heappushpop)(least, count)
    return Facet(values=_first(values, most), many=len(rows))


def _numbers(lists: pa.ListArray, codes: "np.ndarray[Any, Any]", code: int) -> Iterator["np.ndarray[Any, Any]"]:
    flat, offsets = lists.values.to_numpy(), lists.offsets.to_numpy()
    for place in np.flatnonzero(codes == code):
        yield flat[offsets[place] : offsets[place + 1]]


def _first(values: list[FacetValue], most: int) -> list[FacetValue]:
    return sorted(values, key=lambda each: (-each.traces, each.value))[:most]
