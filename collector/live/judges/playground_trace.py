"""An answer of the playground as a trace under the playground's marker, so that it can be found again.

The attribute names here are for writing, as in an instrumented application; those for reading are in
`collector.conventions`.
"""

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from collector.live.judges.playground import GivenAnswer, PlaygroundQuestion
from collector.otlp.encode import Attribute, key_values
from evaluators.chat.dialogue import MEDIA
from evaluators.chat.images import image_of
from evaluators.chat.wire import ModelReply
from rules.marker import PLAYGROUND_MARK
from storage.records import JsonValue, Message, OfferedTool

SERVICE: Final = "tracejury.playground"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaygroundOrigin:
    """The span that the conversation came from."""

    trace_id: str
    span_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaygroundTrace:
    """A trace of one span, as OTLP in protobuf."""

    trace_id: str
    span_id: str
    body: bytes


def trace_of(question: PlaygroundQuestion, answer: GivenAnswer, origin: PlaygroundOrigin | None) -> PlaygroundTrace:
    """Return the trace of a playground request."""
    trace_id, span_id = secrets.token_hex(16), secrets.token_hex(8)
    span = Span(
        trace_id=bytes.fromhex(trace_id),
        span_id=bytes.fromhex(span_id),
        name=f"chat {answer.terms.adapted.model}",
        kind=Span.SPAN_KIND_CLIENT,
        start_time_unix_nano=answer.start_ns,
        end_time_unix_nano=answer.end_ns,
        attributes=key_values(_request_attributes(question, answer)),
    )
    if origin is not None:
        span.links.add(trace_id=bytes.fromhex(origin.trace_id), span_id=bytes.fromhex(origin.span_id))
    if answer.error is not None:
        span.status.CopyFrom(Status(code=Status.STATUS_CODE_ERROR, message=answer.error))
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    named: Mapping[str, Attribute] = {
        "service.name": SERVICE,
        PLAYGROUND_MARK: True,
        "dokimos.project": question.project,
    }
    resource.resource.attributes.extend(key_values(named))
    scope = resource.scope_spans.add()
    scope.scope.name = SERVICE
    scope.spans.append(span)
    return PlaygroundTrace(trace_id=trace_id, span_id=span_id, body=request.SerializeToString())


def reply_message(reply: ModelReply) -> Message:
    """Return an answer in the normal form of messages."""
    texts: list[JsonValue] = [{"type": "text", "content": text} for text in (reply.text, reply.refusal) if text]
    calls: list[JsonValue] = [dict(call) for call in reply.calls]
    return {"role": "assistant", "parts": [*texts, *calls]}


def _request_attributes(question: PlaygroundQuestion, answer: GivenAnswer) -> Mapping[str, Attribute]:
    terms, usage, reply = answer.terms, answer.usage, answer.reply
    connection, url = terms.adapted, urlsplit(terms.adapted.base_url)
    return {
        PLAYGROUND_MARK: True,
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": connection.provider,
        "gen_ai.request.model": connection.model,
        "gen_ai.request.max_tokens": connection.max_output_tokens,
        "gen_ai.request.temperature": connection.temperature,
        "gen_ai.request.top_p": question.dialogue.top_p,
        "gen_ai.response.model": None if usage is None else usage.model,
        "gen_ai.usage.input_tokens": None if usage is None else usage.input_tokens,
        "gen_ai.usage.output_tokens": None if usage is None else usage.output_tokens,
        "gen_ai.usage.cost": None if usage is None else usage.cost_usd,
        "gen_ai.input.messages": _json([_without_bytes(each) for each in question.dialogue.messages]),
        "gen_ai.output.messages": None if reply is None else _json([reply_message(reply)]),
        "gen_ai.tool.definitions": _json(_tools(question.dialogue.tools)) if question.dialogue.tools else None,
        "server.address": url.hostname,
        "server.port": url.port,
        "error.type": answer.error_kind,
        "tracejury.connection_id": terms.stored.connection_id,
    }


def _without_bytes(message: Message) -> Message:
    parts = message.get("parts")
    if not isinstance(parts, list):
        return message
    return {**message, "parts": [_named(part) if isinstance(part, dict) else part for part in parts]}


def _named(part: Mapping[str, JsonValue]) -> JsonValue:
    image = image_of(part) if part.get("type") in MEDIA else None
    if image is None:
        return dict(part)
    placeholder = f"{image.media_type}, {len(image.content):,} bytes, which were sent and are not stored here"
    return {"type": "file", "modality": "image", "mime_type": image.media_type, "filename": placeholder}


def _tools(tools: Sequence[OfferedTool]) -> list[dict[str, JsonValue]]:
    return [
        {"type": "function", "name": tool.name, "description": tool.description, "parameters": tool.parameters}
        for tool in tools
    ]


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
