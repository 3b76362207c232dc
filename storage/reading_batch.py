"""The columns in which readings travel from where spans are read into DuckDB."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from storage.records import AttributeValue, JsonValue, Message, Span, SpanReading, ToolCall, TraceReading

_TEXTS = ("dialect", "input", "output", "tool_name", "tool_call_id", "model", "provider", "session_id", "user_id")
_COUNTS = ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")
_AS_IS = ("span_type", *_TEXTS, *_COUNTS, "cost_usd", "error", "error_type")

_MAYBE_AS_CAME = ("input", "output", "tool_result")
_MAYBE_SAME_JSON = ("input_messages", "output_messages", "tool_arguments")

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
        *(pa.field(f"{name}_key", pa.string()) for name in (*_MAYBE_AS_CAME, *_MAYBE_SAME_JSON)),
        pa.field("input_path", pa.string()),
        pa.field("output_path", pa.string()),
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

_WORTH_CHARS = 16
"""Shorter texts are stored as they are."""

_LARGEST_COUNT = 2**63 - 1

_Row = dict[str, Any]
_Attributes = Mapping[str, AttributeValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingBatch:
    """Readings of spans and of traces, each a table of the schema above."""

    readings: pa.Table
    tool_calls: pa.Table
    traces: pa.Table


def reading_batch(
    spans: Iterable[tuple[int, _Attributes, SpanReading]], traces: Sequence[tuple[Sequence[Span], TraceReading]]
) -> ReadingBatch:
    """Readings of spans with their numbers (`seq`) and attributes, and of traces with their spans, one at least."""
    return ReadingBatch(
        readings=_table([_reading_row(*numbered) for numbered in spans], READINGS),
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
    return pa.table([_column([row[field.name] for row in rows], field.type) for field in schema], schema=schema)


def _column(values: list[Any], kind: pa.DataType) -> pa.Array:
    try:
        return pa.array(values, kind)
    except (UnicodeEncodeError, OverflowError, pa.ArrowException):
        return pa.array([_storable(value) for value in values], kind)


def _storable(value: Any) -> Any:  # noqa: ANN401 - whatever a column holds
    """JSON may spell half of a surrogate pair, which UTF-8 cannot carry, and numbers beyond 64 bits."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, int) and abs(value) > _LARGEST_COUNT:
        return None
    return value


def _reading_row(seq: int, attributes: _Attributes, reading: SpanReading) -> _Row:
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
    for name in (*_MAYBE_AS_CAME, *_MAYBE_SAME_JSON):
        key = reading.sources.get(name, "")
        is_there = _is_there(row[name], attributes.get(key), as_json=name in _MAYBE_SAME_JSON)
        row[f"{name}_key"] = key if is_there else None
        row[name] = None if is_there else row[name]
    for name in ("input", "output"):
        path = _path_to(row[name], getattr(reading, f"{name}_messages"))
        row[f"{name}_path"] = path
        row[name] = None if path else row[name]
    return row


def _path_to(text: str | None, messages: Sequence[Message] | None) -> str | None:
    """Where the text is all of a part of the messages, from the last one on; None where it is not."""
    if text is None or len(text) < _WORTH_CHARS or "\0" in text or not (text.isascii() or _is_unicode(text)):
        return None
    for at in range(len(messages or ()) - 1, -1, -1):
        parts = messages[at].get("parts") if messages else None
        for number, part in enumerate(parts if isinstance(parts, list) else ()):
            if isinstance(part, dict) and part.get("type") == "text" and part.get("content") == text:
                return f"$[{at}].parts[{number}].content"
    return None


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_there(text: str | None, attribute: AttributeValue, *, as_json: bool) -> bool:
    """Whether an attribute says the same, so that the text need not be stored a second time."""
    if text is None or not isinstance(attribute, str) or len(attribute) < _WORTH_CHARS:
        return False
    if not as_json or text == attribute:
        return text == attribute
    if "\\ud" in attribute.lower():  # half a pair, perhaps, which Python reads in JSON and DuckDB does not
        return False
    if not 0 <= len(text) - len(attribute) <= len(attribute) // 8 + _WORTH_CHARS:  # of other content, or other spacing
        return False
    try:
        return bool(json.loads(text) == json.loads(attribute))
    except (ValueError, RecursionError):
        return False


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
