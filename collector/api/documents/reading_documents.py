"""The meaning of a trace, read from the document that the HTTP API shows of it."""

from dataclasses import fields
from typing import Any, TypeVar

from pydantic.alias_generators import to_snake

from collector.api.base.times import instant_ns
from collector.api.responses.traces import SpanDocument, ToolCallDocument, TraceDocument
from storage.records import Message, OfferedTool, SpanReading, TraceReading, TraceToolCall

Document = dict[str, object]
_Record = TypeVar("_Record", OfferedTool, SpanReading, TraceReading, TraceToolCall)


def trace_reading_of(document: TraceDocument) -> TraceReading:
    """Return the meaning of a trace, from its API document."""
    return _record(
        TraceReading,
        document,
        spans={span.span_id: _span_reading_of(span) for span in document.spans},
        conversation=tuple(document.conversation),
        tool_calls=tuple(map(_call_of, document.tool_calls)),
        tool_definitions=_definitions_of(document),
        earlier_calls=(),  # which no document holds: they are for conversations of sessions
    )


def _span_reading_of(span: SpanDocument) -> SpanReading:
    return _record(
        SpanReading,
        span,
        input_messages=_messages_of(span.input_messages),
        output_messages=_messages_of(span.output_messages),
        tool_definitions=_definitions_of(span),
        sources={to_snake(name): source for name, source in span.sources.items()},
        notes=tuple(span.notes),
    )


def _messages_of(messages: list[Message] | None) -> tuple[Message, ...] | None:
    return None if messages is None else tuple(messages)


def _call_of(call: ToolCallDocument) -> TraceToolCall:
    return _record(
        TraceToolCall,
        call,
        start_ns=instant_ns(call.start_time) if call.start_time else 0,
        end_ns=instant_ns(call.end_time) if call.end_time else None,
    )


def _definitions_of(document: SpanDocument | TraceDocument) -> tuple[OfferedTool, ...]:
    return tuple(_record(OfferedTool, tool) for tool in document.tool_definitions)


def _record(kind: type[_Record], document: object, **others: Any) -> _Record:
    names = {field.name for field in fields(kind)} - others.keys()
    return kind(**{name: getattr(document, name) for name in names}, **others)
