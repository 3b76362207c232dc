"""What spans and traces mean, as the JSON documents that the HTTP API and `--json` show."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from collector.api.base.times import instant_ns, time_text
from storage.query.listing import Brief
from storage.records import JsonValue, Message, OfferedTool, SpanReading, TraceReading, TraceToolCall

Document = dict[str, object]

_OTHERS = {"input_messages", "output_messages", "tool_definitions", "sources", "notes"}
"""Fields whose values are not the same in a document."""


def span_reading_document(reading: SpanReading) -> Document:
    """What one span means; `sources` says of each field which key, event or log told it."""
    return {
        "spanType": reading.span_type,
        "dialect": reading.dialect,
        "input": reading.input,
        "output": reading.output,
        "inputMessages": reading.input_messages,
        "outputMessages": reading.output_messages,
        "toolName": reading.tool_name,
        "toolCallId": reading.tool_call_id,
        "toolArguments": reading.tool_arguments,
        "toolResult": reading.tool_result,
        "toolDefinitions": list(map(_definition, reading.tool_definitions)),
        "model": reading.model,
        "provider": reading.provider,
        "inputTokens": reading.input_tokens,
        "outputTokens": reading.output_tokens,
        "cachedTokens": reading.cached_tokens,
        "reasoningTokens": reading.reasoning_tokens,
        "finishReason": reading.finish_reason,
        "costUsd": reading.cost_usd,
        "sessionId": reading.session_id,
        "userId": reading.user_id,
        "runId": reading.run_id,
        "itemKey": reading.item_key,
        "error": reading.error,
        "errorType": reading.error_type,
        "sources": {_camel(field): source for field, source in reading.sources.items()},
        "notes": list(reading.notes),
    }


def trace_reading_document(reading: TraceReading) -> Document:
    """What a trace means, without its spans."""
    return {
        **_texts_and_sums(reading),
        "sessionId": reading.session_id,
        "userId": reading.user_id,
        "toolCalls": list(map(call_document, reading.tool_calls)),
        "toolDefinitions": list(map(_definition, reading.tool_definitions)),
        "conversation": list(reading.conversation),
    }


def sums_document(sums: Brief) -> Document:
    """Describe what is stored of a trace together, and of how many spans."""
    return {**_texts_and_sums(sums), "summedSpanCount": sums.summed_span_count}


def _texts_and_sums(trace: TraceReading | Brief) -> Document:
    return {
        "input": trace.input,
        "output": trace.output,
        "finalResponse": trace.final_response,
        "finishReason": trace.finish_reason,
        "inputTokens": trace.input_tokens,
        "outputTokens": trace.output_tokens,
        "costUsd": trace.cost_usd,
    }


def trace_reading_of(document: Mapping[str, Any]) -> TraceReading:
    """What a trace means, of the API's document of it.

    Raises:
        KeyError, ValueError: it is no such document.
    """
    texts = (
        "input",
        "output",
        "finalResponse",
        "finishReason",
        "sessionId",
        "userId",
        "inputTokens",
        "outputTokens",
        "costUsd",
    )
    return TraceReading(
        spans={span["spanId"]: _span_reading_of(span) for span in document["spans"]},
        conversation=tuple(document["conversation"]),
        tool_calls=tuple(map(_call_of, document["toolCalls"])),
        tool_definitions=_definitions_of(document),
        earlier_calls=(),  # which no document holds: they are for conversations of sessions
        **{_snake(name): document[name] for name in texts},
    )


def _span_reading_of(document: Mapping[str, Any]) -> SpanReading:
    """What one span means, from its document."""
    as_is = {field.name for field in fields(SpanReading)} - _OTHERS
    return SpanReading(
        **{name: document[_camel(name)] for name in as_is},
        input_messages=_messages_of(document["inputMessages"]),
        output_messages=_messages_of(document["outputMessages"]),
        tool_definitions=_definitions_of(document),
        sources={_snake(name): source for name, source in document["sources"].items()},
        notes=tuple(document["notes"]),
    )


def _messages_of(told: list[Message] | None) -> tuple[Message, ...] | None:
    return None if told is None else tuple(told)


def _call_of(document: Mapping[str, Any]) -> TraceToolCall:
    end = document["endTime"]
    content = ("arguments", "result", "hasArguments", "hasResult", "isError", "error")
    as_is = ("ordinal", "spanId", "callId", "name", *content)
    return TraceToolCall(
        start_ns=instant_ns(document["startTime"]) if document["startTime"] else 0,
        end_ns=instant_ns(end) if end else None,
        **{_snake(name): document[name] for name in as_is},
    )


def _definitions_of(document: Mapping[str, Any]) -> tuple[OfferedTool, ...]:
    return tuple(OfferedTool(**tool) for tool in document["toolDefinitions"])


def call_document(call: TraceToolCall) -> Document:
    """One call of a tool."""
    known = call.start_ns and call.end_ns
    return {
        "ordinal": call.ordinal,
        "spanId": call.span_id,
        "callId": call.call_id,
        "name": call.name,
        "arguments": call.arguments,
        "result": call.result,
        "hasArguments": call.has_arguments,
        "hasResult": call.has_result,
        "isError": call.is_error,
        "error": call.error,
        "startTime": time_text(call.start_ns),
        "endTime": time_text(call.end_ns),
        "durationMs": (call.end_ns - call.start_ns) / 1e6 if known and call.end_ns is not None else None,
    }


def _definition(tool: OfferedTool) -> dict[str, JsonValue]:
    return {"name": tool.name, "description": tool.description, "parameters": tool.parameters}


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def _camel(field: str) -> str:
    first, *others = field.split("_")
    return first + "".join(map(str.capitalize, others))
