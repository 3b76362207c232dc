"""The calls of tools in traces in which nothing but the tools' own spans tells of them: worked out for all at once."""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from collector.conventions.call_ids import MADE_UP
from collector.conventions.columnar.forest import Mask, Places
from collector.conventions.columnar.sums import SpanColumns

_TOOLS: Final = "tool_call"  # how the types of the parts of messages begin that are calls and results
_MOST_LEVELS: Final = 64


def intricate(told: SpanColumns) -> Mask:
    """The traces whose calls follow from more than each tool's span by itself.

    Messages tell of calls, or two spans may tell of one run, or a run begins before the one that it is in.
    """
    forest = told.forest
    found = np.zeros(forest.traces, dtype=np.bool_)
    for name in ("input_messages", "output_messages"):
        mentions = pc.match_substring(told.column(name), _TOOLS).fill_null(fill_value=False)
        found[forest.trace[mentions.to_numpy(zero_copy_only=False)]] = True
    runs = np.flatnonzero(told.is_kind("tool"))
    if not len(runs):
        return found
    failed = told.is_kind("chain") & (told.has("error") | told.has("error_type")) & (forest.parent >= 0)
    of_tools = failed & told.is_kind("tool")[np.maximum(forest.parent, 0)]
    found[forest.trace[of_tools]] = True
    names, ids, scopes = (_codes(told.column(name)) for name in ("tool_name", "tool_call_id", "scope_name"))
    found[forest.trace[runs[_of_two(forest.trace[runs], names[runs], scopes[runs])]]] = True
    found[forest.trace[runs[_twice(forest.trace[runs], ids[runs])]]] = True
    found[forest.trace[runs[_nested(told, runs, names)]]] = True
    return found | forest.is_tangled


def runs_of(told: SpanColumns, among: Mask) -> tuple[Places, pa.Table]:
    """The runs of tools in some traces, none of them intricate: the trace of each, and what is told of it, in order."""
    forest = told.forest
    runs = np.flatnonzero(told.is_kind("tool") & among[forest.trace])
    starts = told.numbers("start_time")
    runs = runs[np.lexsort((runs, forest.depth[runs], starts[runs], forest.trace[runs]))]
    traces = forest.trace[runs]
    firsts = np.flatnonzero(np.diff(traces, prepend=-1))
    ordinals = np.arange(len(runs)) - np.repeat(firsts, np.diff(np.append(firsts, len(runs))))
    columns = {
        name: told.column(name).take(pa.array(runs))
        for name in ("span_id", "tool_call_id", "tool_name", "tool_arguments", "tool_result", "error", "error_type")
    }
    ends = told.numbers("end_time")[runs]
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
    """Ids of calls without those that a framework made up."""
    for mark in MADE_UP:
        ids = pc.if_else(pc.starts_with(ids, mark), None, ids)
    return ids


def _codes(column: pa.Array) -> Places:
    """A number for each text; below 0: there is none."""
    codes: Places = column.dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes


def _twice(traces: Places, ids: Places) -> Mask:
    """Which runs share their call id with another run of the trace."""
    told = np.flatnonzero(ids >= 0)
    found = np.zeros(len(ids), dtype=np.bool_)
    keys = traces[told] * (int(ids.max(initial=0)) + 1) + ids[told]
    _, places, counts = np.unique(keys, return_inverse=True, return_counts=True)
    found[told] = counts[places] > 1
    return found


def _of_two(traces: Places, names: Places, scopes: Places) -> Mask:
    """Mark executions with the name of one of the same trace that another library reports."""
    keys = np.stack([traces, names, scopes])
    order = np.lexsort(keys[::-1])
    keys = keys[:, order]
    found = np.zeros(len(traces), dtype=np.bool_)
    found[order[1:]] = (keys[:2, 1:] == keys[:2, :-1]).all(axis=0) & (keys[2, 1:] != keys[2, :-1])
    return found


def _nested(told: SpanColumns, runs: Places, names: Places) -> Mask:
    """Which runs are within one of the same name, or do not begin after one that they are in."""
    forest, is_run, starts = told.forest, told.is_kind("tool"), told.numbers("start_time")
    found = np.zeros(len(runs), dtype=np.bool_)
    above = forest.parent[runs]
    for _ in range(_MOST_LEVELS):
        here = above >= 0
        if not here.any():
            break
        outer = np.where(here, above, 0)
        is_outer = here & is_run[outer]
        found |= is_outer & ((names[outer] == names[runs]) | (starts[outer] >= starts[runs]))
        above = np.where(here, forest.parent[outer], -1)
    return found | (above >= 0)
