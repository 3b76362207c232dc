"""Tool calls of traces in which only the tools' own spans have them: computed for all traces at once."""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from collector.conventions.call_ids import MADE_UP
from collector.conventions.columnar.forest import Mask, Places
from collector.conventions.columnar.sums import SpanColumns

_TOOLS: Final = "tool_call"  # prefix of the types of message parts that are calls or results
_MOST_LEVELS: Final = 64


def intricate(spans: SpanColumns) -> Mask:
    """Return a mask of the traces whose calls cannot be read from the tools' spans one by one.

    Their messages contain calls, a chain directly below a tool failed, or two spans may report one run. Or a nested run
    does not begin after the outer one, or the tree is tangled.
    """
    forest = spans.forest
    mask = np.zeros(forest.traces, dtype=np.bool_)
    for name in ("input_messages", "output_messages"):
        mentions = pc.match_substring(spans.column(name), _TOOLS).fill_null(fill_value=False)
        mask[forest.trace[mentions.to_numpy(zero_copy_only=False)]] = True
    runs = np.flatnonzero(spans.is_kind("tool"))
    if not len(runs):
        return mask
    failed = spans.is_kind("chain") & (spans.has("error") | spans.has("error_type")) & (forest.parent >= 0)
    of_tools = failed & spans.is_kind("tool")[np.maximum(forest.parent, 0)]
    mask[forest.trace[of_tools]] = True
    names, ids, scopes = (_codes(spans.column(name)) for name in ("tool_name", "tool_call_id", "scope_name"))
    mask[forest.trace[runs[_of_two(forest.trace[runs], names[runs], scopes[runs])]]] = True
    mask[forest.trace[runs[_twice(forest.trace[runs], ids[runs])]]] = True
    mask[forest.trace[runs[_nested(spans, runs, names)]]] = True
    return mask | forest.is_tangled


def runs_of(spans: SpanColumns, among: Mask) -> tuple[Places, pa.Table]:
    """Return the tool runs of the traces in `among`: for each run the number of its trace, and a row of its fields."""
    forest = spans.forest
    runs = np.flatnonzero(spans.is_kind("tool") & among[forest.trace])
    starts = spans.numbers("start_time")
    runs = runs[np.lexsort((runs, forest.depth[runs], starts[runs], forest.trace[runs]))]
    traces = forest.trace[runs]
    firsts = np.flatnonzero(np.diff(traces, prepend=-1))
    ordinals = np.arange(len(runs)) - np.repeat(firsts, np.diff(np.append(firsts, len(runs))))
    columns = {
        name: spans.column(name).take(pa.array(runs))
        for name in ("span_id", "tool_call_id", "tool_name", "tool_arguments", "tool_result", "error", "error_type")
    }
    ends = spans.numbers("end_time")[runs]
    error = pc.if_else(pc.equal(columns["error"], ""), None, columns["error"])
    return traces, pa.table(
        {
            "span_id": columns["span_id"],
            "ordinal": pa.array(ordinals, pa.int32()),
            "call_id": _given(columns["tool_call_id"]),
            "name": columns["tool_name"].fill_null(""),
            "arguments": columns["tool_arguments"],
            "result": columns["tool_result"],
            "is_error": pc.or_(columns["error"].is_valid(), columns["error_type"].is_valid()),
            "error": pc.coalesce(error, columns["error_type"]),
            "start_time": pa.array(starts[runs], pa.timestamp("ns")),
            "end_time": pa.array(ends, pa.timestamp("ns"), mask=ends == 0),
        }
    )


def _given(ids: pa.Array) -> pa.Array:
    for mark in MADE_UP:
        ids = pc.if_else(pc.starts_with(ids, mark), None, ids)
    return ids


def _codes(column: pa.Array) -> Places:
    codes: Places = column.dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes


def _twice(traces: Places, ids: Places) -> Mask:
    """Return a mask of runs that share their call id with another run of the trace."""
    known = np.flatnonzero(ids >= 0)
    mask = np.zeros(len(ids), dtype=np.bool_)
    keys = traces[known] * (int(ids.max(initial=0)) + 1) + ids[known]
    _, places, counts = np.unique(keys, return_inverse=True, return_counts=True)
    mask[known] = counts[places] > 1
    return mask


def _of_two(traces: Places, names: Places, scopes: Places) -> Mask:
    """Mark runs for which another library reports a run of the same name in the same trace."""
    keys = np.stack([traces, names, scopes])
    order = np.lexsort(keys[::-1])
    keys = keys[:, order]
    mask = np.zeros(len(traces), dtype=np.bool_)
    mask[order[1:]] = (keys[:2, 1:] == keys[:2, :-1]).all(axis=0) & (keys[2, 1:] != keys[2, :-1])
    return mask


def _nested(spans: SpanColumns, runs: Places, names: Places) -> Mask:
    """Return a mask of runs within one of the same name, or that do not begin after the run around them."""
    forest, is_run, starts = spans.forest, spans.is_kind("tool"), spans.numbers("start_time")
    mask = np.zeros(len(runs), dtype=np.bool_)
    above = forest.parent[runs]
    for _ in range(_MOST_LEVELS):
        here = above >= 0
        if not here.any():
            break
        outer = np.where(here, above, 0)
        is_outer = here & is_run[outer]
        mask |= is_outer & ((names[outer] == names[runs]) | (starts[outer] >= starts[runs]))
        above = np.where(here, forest.parent[outer], -1)
    return mask | (above >= 0)
