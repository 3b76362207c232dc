"""What spans and traces mean, as the JSON documents that the HTTP API and `--json` show."""

from storage.records import JsonValue, SpanReading, ToolCall, ToolDefinition, TraceReading

Document = dict[str, object]


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
        "costUsd": reading.cost_usd,
        "sessionId": reading.session_id,
        "userId": reading.user_id,
        "error": reading.error,
        "errorType": reading.error_type,
        "sources": {_camel(field): source for field, source in reading.sources.items()},
        "notes": list(reading.notes),
    }


def trace_reading_document(reading: TraceReading) -> Document:
    """What a trace means, without its spans."""
    return {
        "input": reading.input,
        "output": reading.output,
        "finalResponse": reading.final_response,
        "sessionId": reading.session_id,
        "userId": reading.user_id,
        "inputTokens": reading.input_tokens,
        "outputTokens": reading.output_tokens,
        "costUsd": reading.cost_usd,
        "toolCalls": list(map(_call, reading.tool_calls)),
        "toolDefinitions": list(map(_definition, reading.tool_definitions)),
        "conversation": list(reading.conversation),
    }


def _call(call: ToolCall) -> Document:
    known = call.start_ns and call.end_ns
    return {
        "ordinal": call.ordinal,
        "spanId": call.span_id,
        "callId": call.call_id,
        "name": call.name,
        "arguments": call.arguments,
        "result": call.result,
        "isError": call.is_error,
        "error": call.error,
        "durationMs": (call.end_ns - call.start_ns) / 1e6 if known and call.end_ns is not None else None,
    }


def _definition(tool: ToolDefinition) -> dict[str, JsonValue]:
    return {"name": tool.name, "description": tool.description, "parameters": tool.parameters}


def _camel(field: str) -> str:
    first, *others = field.split("_")
    return first + "".join(map(str.capitalize, others))
