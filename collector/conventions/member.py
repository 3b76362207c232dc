"""A span of a trace, with the fields that the meaning of the trace depends on."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from collector.conventions.names import RECORD, RESPONSE_ID
from collector.conventions.prices import COMPUTED
from collector.conventions.values import NotJson, decode, parsed, text_of
from storage.records import JsonValue, Message, OfferedTool, Span, SpanReading, SpanType

_NO_ID = re.compile(r"[\W_]*|null|none|nil|nan|n/a|undefined|unknown|<unknown>", re.IGNORECASE)
_RECORD_NS = 50_000_000  # a guess: maximum duration of a span that only records the usage of another span
_TOOLS = "tool_call"  # prefix of the types of message parts that are calls or results


@dataclass(slots=True, eq=False)  # not keyword-only: positional arguments halve the time
class TraceMember:
    """A span of a trace as read. None: unknown.

    Messages, arguments and definitions may be stored JSON, which is decoded on first use.
    """

    span_id: str
    parent_span_id: str | None
    start_ns: int
    end_ns: int | None
    span_type: SpanType
    input: str | None
    output: str | None
    prompt: list[Message] | str | None
    answered: list[Message] | str | None
    tool_name: str | None
    tool_call_id: str | None
    arguments: JsonValue
    has_stored_arguments: bool
    tool_result: JsonValue
    has_result: bool  # a tool's result is recorded, even if it is null
    response_id: str | None
    model: str | None
    scope: str | None  # the library of the span
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    finish_reason: str | None
    cost_usd: float | None
    cost_source: str | None  # the prices of a computed cost; None for a reported one
    is_bare: bool  # a model call only by the name of its model, without messages
    session_id: str | None
    user_id: str | None
    error: str | None
    error_type: str | None
    offered: Sequence[OfferedTool] | str | None  # to a model
    noted: str | None = None  # reasons of unexpected field values, one per line

    @property
    def notes(self) -> Sequence[str]:
        """Return the reasons of unexpected field values."""
        return (self.noted or "").splitlines()

    @property
    def answer_id(self) -> str | None:
        """Return the response id, unless it is a placeholder."""
        return answer_id(self.response_id)

    @property
    def is_record(self) -> bool:
        """Return whether the span has tokens and nothing else, so that it may be a record of a call's usage."""
        is_counted = self.input_tokens is not None or self.output_tokens is not None
        is_silent = self.input is None and self.output is None and not self.prompt and not self.answered
        has_answered = self.finish_reason is not None or (self.end_ns or 0) - self.start_ns > _RECORD_NS
        return is_counted and is_silent and not has_answered and (self.is_bare or self.span_type == "other")

    @property
    def input_messages(self) -> list[Message] | None:
        """Return the input messages."""
        if isinstance(self.prompt, str):
            self.prompt = messages_of(self.prompt)
        return self.prompt

    @property
    def output_messages(self) -> list[Message] | None:
        """Return the output messages."""
        if isinstance(self.answered, str):
            self.answered = messages_of(self.answered)
        return self.answered

    @property
    def has_tools_in_input(self) -> bool:
        """Return False if the input messages cannot involve tools."""
        return bool(self.prompt) and (not isinstance(self.prompt, str) or _TOOLS in self.prompt)

    @property
    def has_tools_in_output(self) -> bool:
        """Return False if the output messages cannot involve tools."""
        return bool(self.answered) and (not isinstance(self.answered, str) or _TOOLS in self.answered)

    @property
    def tool_definitions(self) -> Sequence[OfferedTool]:
        """Return the offered tools."""
        if isinstance(self.offered, str):
            self.offered = _definitions(self.offered)
        return self.offered or ()

    @property
    def tool_arguments(self) -> JsonValue:
        """Return the arguments of a tool call."""
        if self.has_stored_arguments and isinstance(self.arguments, str):
            self.arguments, self.has_stored_arguments = decoded(self.arguments), False
        return self.arguments


def member_of(span: Span, reading: SpanReading) -> TraceMember:
    """Make a member of a trace from a span and its reading."""
    response_id = text_of(span.attributes.get(RESPONSE_ID))
    if response_id is not None and response_id.startswith('"'):
        response_id = text_of(parsed(response_id))
    return TraceMember(
        span_id=span.span_id,
        parent_span_id=span.parent_span_id,
        start_ns=span.start_ns,
        end_ns=span.end_ns,
        span_type=reading.span_type,
        input=reading.input,
        output=reading.output,
        prompt=None if reading.input_messages is None else list(reading.input_messages),
        answered=None if reading.output_messages is None else list(reading.output_messages),
        tool_name=reading.tool_name,
        tool_call_id=reading.tool_call_id,
        arguments=reading.tool_arguments,
        has_stored_arguments=False,
        tool_result=reading.tool_result,
        has_result=reading.tool_result is not None or "tool_result" in reading.sources,
        response_id=response_id,
        model=reading.model,
        scope=span.scope.name,
        input_tokens=reading.input_tokens,
        output_tokens=reading.output_tokens,
        cached_tokens=reading.cached_tokens,
        finish_reason=reading.finish_reason,
        cost_usd=reading.cost_usd,
        cost_source=source if (source := reading.sources.get("cost_usd", "")).startswith(COMPUTED) else None,
        is_bare=f"span: {RECORD}" in reading.notes,
        session_id=reading.session_id,
        user_id=reading.user_id,
        error=reading.error,
        error_type=reading.error_type,
        offered=reading.tool_definitions,
        noted="\n".join(reading.notes),
    )


def answer_id(text: str | None) -> str | None:
    """Return a response id; None for blanks, dashes and words that mean none."""
    plain = (text or "").strip()
    return None if _NO_ID.fullmatch(plain) else plain


def decoded(text: str) -> JsonValue:
    """Decode a stored text as JSON; return the text itself if it is not JSON."""
    try:
        return decode(text)
    except NotJson:
        return text


def messages_of(text: str) -> list[Message] | None:
    """Decode stored messages; None if the text is not a list."""
    messages = decoded(text)
    return messages if isinstance(messages, list) else None  # type: ignore[return-value] # as it was written


def _definitions(text: str) -> Sequence[OfferedTool]:
    documents = decoded(text)
    maps = (tool for tool in documents if isinstance(tool, dict)) if isinstance(documents, list) else ()
    return tuple(OfferedTool(**tool) for tool in maps)  # type: ignore[arg-type] # as they were written
