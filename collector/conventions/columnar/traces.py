"""The meaning of traces, from the stored columns of their spans."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from collector.conventions.calls import all_calls, call_key
from collector.conventions.columnar.forest import Forest, Places, forest_of
from collector.conventions.columnar.runs import intricate, runs_of
from collector.conventions.columnar.stored import json_text
from collector.conventions.columnar.sums import SpanColumns, sums
from collector.conventions.member import TraceMember
from collector.conventions.trace import sums_of_tree
from collector.conventions.tree import tree_of
from storage.ingest.batch import TOOL_CALLS, TRACES
from storage.records import JsonValue, TraceToolCall

COLUMNS: Final = (
    "span_id", "parent_span_id", "span_type", "input", "output", "input_messages", "output_messages", "tool_name",
    "tool_call_id", "tool_arguments", "tool_result", "response_id", "model", "scope_name", "input_tokens",
    "output_tokens", "finish_reason", "cost_usd", "cost_source", "output_is_answer", "session_id", "user_id", "error",
    "error_type",
)  # fmt: skip
"""Columns of a span that its trace depends on, besides its times."""

_NULL: Final = "null"  # how a recorded null is stored
_SUMS: Final = (
    "input", "output", "final_response", "finish_reason", "session_id", "user_id", "input_tokens", "output_tokens",
    "cost_usd",
)  # fmt: skip


def meanings(spans: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Read whole traces from a table of all their spans: return rows of `TRACES` and of `TOOL_CALLS`.

    The table has the columns above, `tenant`, `trace_id`, `start_time`, `end_time`, `output_is_answer` and `pending`;
    texts that are stored as keys of attributes are spelled out.
    """
    counted = spans.filter(pc.invert(spans.column("pending").fill_null(fill_value=False)))
    forest = forest_of(counted)
    counted_spans = SpanColumns(counted, forest)
    columns, is_open = sums(counted_spans)
    first_rows = pa.array(forest.rows[forest.firsts])
    columns |= {name: counted.column(name).take(first_rows) for name in ("tenant", "trace_id", "start_time")}
    is_intricate = intricate(counted_spans)
    one_by_one = np.flatnonzero(is_open | is_intricate)
    calls: list[dict[str, Any]] = []
    with_runs, runs = runs_of(counted_spans, ~(is_open | is_intricate))
    counts = np.bincount(with_runs, minlength=forest.traces).astype(np.int32)
    again: dict[str, list[Any]] = {name: [] for name in _SUMS}
    for trace, members in _members(counted, forest, one_by_one):
        tree = tree_of(members)
        calls_of_tree = all_calls(tree)
        counts[trace] = len(calls_of_tree.own)
        calls += [_call_row(call, trace) for call in calls_of_tree.own]
        if calls_of_tree.latest:
            calls += [_call_row(call, trace, is_sent=True) for call in calls_of_tree.latest]
        if is_open[trace]:
            sums_of = sums_of_tree(tree)
            for name in _SUMS:
                again[name].append(getattr(sums_of, name))
    for name in _SUMS:
        values = pa.array(again[name], columns[name].type)
        columns[name] = pc.replace_with_mask(columns[name], pa.array(is_open), values)
    columns["tool_call_count"] = pa.array(counts)
    of_runs = {name: columns[name].take(pa.array(with_runs)) for name in ("tenant", "trace_id")}
    of_runs |= {name: runs.column(name) for name in runs.column_names}
    of_runs |= {
        "call_key": pa.nulls(runs.num_rows, pa.uint64()),
        "is_sent": pa.repeat(pa.scalar(value=False), runs.num_rows),
    }
    own_calls = pa.table({name: of_runs[name] for name in TOOL_CALLS.names}, schema=TOOL_CALLS)
    return (
        pa.table({name: columns[name] for name in TRACES.names}, schema=TRACES),
        pa.concat_tables([own_calls, _calls(calls, columns)]),
    )


def _members(spans: pa.Table, forest: Forest, traces: Places) -> Iterator[tuple[int, list[TraceMember]]]:
    """Yield the spans of some traces, trace by trace."""
    bounds = [*forest.firsts.tolist(), len(forest.rows)]
    places = np.concatenate([np.arange(bounds[at], bounds[at + 1]) for at in traces] or [np.zeros(0, np.int64)])
    rows = spans.select([*COLUMNS, "start_time", "end_time"]).take(pa.array(forest.rows[places]))
    columns = [rows.column(name).to_pylist() for name in COLUMNS]
    starts = rows.column("start_time").cast(pa.int64()).to_pylist()
    ends = rows.column("end_time").cast(pa.int64()).to_pylist()
    members = [
        _member(row, start, end) for row, start, end in zip(zip(*columns, strict=True), starts, ends, strict=True)
    ]
    at = 0
    for trace in traces.tolist():
        count = bounds[trace + 1] - bounds[trace]
        yield trace, members[at : at + count]
        at += count


def _member(row: Sequence[Any], start_ns: int, end_ns: int) -> TraceMember:
    (span_id, parent_id, kind, input_text, answered, prompt, answered_messages, name, call_id, arguments, result,
     response_id, model, scope, input_tokens, output_tokens, finish_reason, cost_usd, cost_source, is_answer,
     session_id, user_id, error, error_type) = row  # fmt: skip
    return TraceMember(
        span_id=span_id,
        parent_span_id=parent_id,
        start_ns=start_ns,
        end_ns=end_ns or None,
        span_type=kind,
        input=input_text,
        output=answered,
        prompt=prompt,
        answered=answered_messages,
        tool_name=name,
        tool_call_id=call_id,
        arguments=arguments,
        has_stored_arguments=True,
        tool_result=None if result == _NULL else result,
        has_result=result is not None,
        response_id=response_id,
        model=model,
        scope=scope,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cached_tokens=None,
        finish_reason=finish_reason,
        cost_usd=cost_usd,
        cost_source=cost_source,
        is_bare=is_answer is False and answered_messages is None,
        session_id=session_id,
        user_id=user_id,
        error=error,
        error_type=error_type,
        offered=None,
    )


def _call_row(call: TraceToolCall, trace: int, *, is_sent: bool = False) -> dict[str, Any]:
    has_ended = call.has_result or call.is_error
    return {
        "trace": trace,
        "span_id": call.span_id,
        "ordinal": call.ordinal,
        "call_id": call.call_id,
        "name": call.name,
        "arguments": None if call.arguments is None or is_sent else json_text(call.arguments),
        "result": _plain(call.result) if call.has_result else None,
        "is_error": call.is_error,
        "error": call.error,
        "start_time": call.start_ns,
        "end_time": call.end_ns,
        "call_key": _number(call) if call.call_id is not None and has_ended == is_sent else None,
        "is_sent": is_sent,
    }


def _number(call: TraceToolCall) -> int:
    return int.from_bytes(call_key(call)[:8], "big")


def _plain(value: JsonValue) -> str:
    return value if isinstance(value, str) else json_text(value)


def _calls(rows: Sequence[Mapping[str, Any]], traces: Mapping[str, pa.Array]) -> pa.Table:
    of = pa.array([row["trace"] for row in rows], pa.int64())
    columns = {name: traces[name].take(of) for name in ("tenant", "trace_id")}
    rest = [field for field in TOOL_CALLS if field.name not in columns]
    columns |= {field.name: pa.array([row[field.name] for row in rows], field.type) for field in rest}
    return pa.table({name: columns[name] for name in TOOL_CALLS.names}, schema=TOOL_CALLS)
