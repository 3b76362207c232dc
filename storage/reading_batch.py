"""The columns in which readings travel from where spans are read into DuckDB."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from storage.records import JsonValue, Span, SpanReading, ToolCall, TraceReading

_TEXTS = ("dialect", "input", "output", "tool_name", "tool_call_id", "model", "provider", "session_id", "user_id")
_COUNTS = ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")
_AS_IS = ("span_type", *_TEXTS, *_COUNTS, "cost_usd", "error", "error_type")

READINGS = pa.schema(
    [
        pa.field("seq", pa.int64()),
        pa.field("span_type", pa.string()),
        *(pa.field(name, pa.string()) for name in _TEXTS),
        *(pa.field(name, pa.int64()) for name in _COUNTS),
        pa.field("cost_usd", pa.float64()),
        pa.field("error", pa.string()),
        pa.field("error_type", pa.string()),
        pa.field("input_messages", pa.string()),
        pa.field("output_messages", pa.string()),
        pa.field("tool_arguments", pa.string()),
        pa.field("tool_result", pa.string()),
        pa.field("tool_definitions", pa.string()),
        pa.field("notes", pa.string()),
    ]
)

TOOL_CALLS = pa.schema(
    [
        pa.field("tenant", pa.string()),
        pa.field("trace_id", pa.string()),
        pa.field("span_id", pa.string()),
        pa.field("ordinal", pa.int32()),
        pa.field("call_id", pa.string()),
        pa.field("name", pa.string()),
        pa.field("arguments", pa.string()),
        pa.field("result", pa.string()),
        pa.field("is_error", pa.bool_()),
        pa.field("error", pa.string()),
        pa.field("start_time", pa.timestamp("ns")),
        pa.field("end_time", pa.timestamp("ns")),
    ]
)

_TRACE_TEXTS = ("input", "output", "final_response", "session_id", "user_id")
_TRACE_COUNTS = ("input_tokens", "output_tokens")

TRACES = pa.schema(
    [
        pa.field("tenant", pa.string()),
        pa.field("trace_id", pa.string()),
        pa.field("start_time", pa.timestamp("ns")),
        *(pa.field(name, pa.string()) for name in _TRACE_TEXTS),
        *(pa.field(name, pa.int64()) for name in _TRACE_COUNTS),
        pa.field("cost_usd", pa.float64()),
        pa.field("tool_call_count", pa.int32()),
    ]
)

_LARGEST_COUNT = 2**63 - 1

_Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingBatch:
    """Readings of spans and of traces, each a table of the schema above."""

    readings: pa.Table
    tool_calls: pa.Table
    traces: pa.Table


def reading_batch(
    spans: Iterable[tuple[int, SpanReading]], traces: Sequence[tuple[Sequence[Span], TraceReading]]
) -> ReadingBatch:
    """Readings of spans by their numbers (`seq`), and of traces with their spans, of which there is one at least."""
    return ReadingBatch(
        readings=_table([_reading_row(seq, reading) for seq, reading in spans], READINGS),
        tool_calls=_table(
            [_call_row(spans[0], call) for spans, reading in traces for call in reading.tool_calls], TOOL_CALLS
        ),
        traces=_table([_trace_row(spans, reading) for spans, reading in traces], TRACES),
    )


def json_text(value: JsonValue) -> str:
    """A value as JSON that every reader takes: NaN and the infinities, which JSON does not have, as strings."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), ensure_ascii=False, allow_nan=False)


def plain_text(value: JsonValue) -> str | None:
    """A text as it is, anything else as JSON."""
    return value if value is None or isinstance(value, str) else json_text(value)


def _table(rows: list[_Row], schema: pa.Schema) -> pa.Table:
    return pa.table(
        [pa.array([_storable(row[field.name]) for row in rows], field.type) for field in schema], schema=schema
    )


def _storable(value: Any) -> Any:  # noqa: ANN401 - whatever a column holds
    """JSON may spell half of a surrogate pair, which UTF-8 cannot carry, and numbers beyond 64 bits."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, int) and abs(value) > _LARGEST_COUNT:
        return None
    return value


def _reading_row(seq: int, reading: SpanReading) -> _Row:
    row: _Row = {name: getattr(reading, name) for name in _AS_IS}
    row["seq"] = seq
    for name in ("input_messages", "output_messages"):
        messages = getattr(reading, name)
        row[name] = None if messages is None else json_text(list(messages))
    row["tool_arguments"] = None if reading.tool_arguments is None else json_text(reading.tool_arguments)
    row["tool_result"] = plain_text(reading.tool_result)
    definitions: list[JsonValue] = [
        {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
        for tool in reading.tool_definitions
    ]
    row["tool_definitions"] = json_text(definitions) if definitions else None
    row["notes"] = "\n".join(reading.notes) or None
    return row


def _call_row(first: Span, call: ToolCall) -> _Row:
    return {
        "tenant": first.tenant,
        "trace_id": first.trace_id,
        "span_id": call.span_id,
        "ordinal": call.ordinal,
        "call_id": call.call_id,
        "name": call.name,
        "arguments": None if call.arguments is None else json_text(call.arguments),
        "result": plain_text(call.result),
        "is_error": call.is_error,
        "error": call.error,
        "start_time": call.start_ns,
        "end_time": call.end_ns,
    }


def _trace_row(spans: Sequence[Span], reading: TraceReading) -> _Row:
    row: _Row = {name: getattr(reading, name) for name in (*_TRACE_TEXTS, *_TRACE_COUNTS, "cost_usd")}
    row["tenant"], row["trace_id"] = spans[0].tenant, spans[0].trace_id
    row["start_time"] = min(span.start_ns for span in spans)
    row["tool_call_count"] = len(reading.tool_calls)
    return row


def _finite(value: JsonValue) -> JsonValue:
    match value:
        case float() if not math.isfinite(value):
            return str(value)
        case list():
            return [_finite(item) for item in value]
        case Mapping():
            return {key: _finite(item) for key, item in value.items()}
        case _:
            return value
