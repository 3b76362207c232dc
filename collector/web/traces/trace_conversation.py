"""The conversation of a trace: each message with a link to its origin, and the calls that no message shows."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from collector.conventions.trace import speaking
from collector.conversation import session_conversation, session_trace
from collector.web.spans.conversation import ShownMessage, calls_beside, conversation, failed_calls
from storage.records import Message, Span, TraceReading, TraceSummary, TraceToolCall

PAGE_TURNS: Final = 200
PAGE_CALLS: Final = 200
"""Maximum number of turns, and of calls, on a page. Guesses: more than a person reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The span and field that first carried a message."""

    span_id: str
    span_name: str
    of: str  # query parameter `of` for the uncut text: FIELD.INDEX


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A message and its origin."""

    message: ShownMessage
    origin: Origin | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceTalk:
    """A window of a conversation."""

    turns: Sequence[Turn]
    begin: int
    total: int
    has_messages: bool  # False: no span has messages, so the input and the output of the trace are shown
    calls: Sequence[TraceToolCall]  # that no message shows

    @property
    def before(self) -> int | None:
        """Return the start of the window before this one."""
        return max(self.begin - PAGE_TURNS, 0) if self.begin else None

    @property
    def after(self) -> int | None:
        """Return the start of the next window."""
        return self.begin + PAGE_TURNS if self.begin + PAGE_TURNS < self.total else None


def trace_talk(summary: TraceSummary, spans: Sequence[Span], reading: TraceReading, *, begin: int | None) -> TraceTalk:
    """Return a window of the conversation of a trace: the one that begins at `begin`, or the last one.

    The trace is read as the only turn of a session, so both pages show the same messages and calls.
    """
    (turn,) = session_conversation([session_trace(summary, reading, ())])
    messages = turn.messages
    if begin is None or not 0 <= begin < max(len(messages), 1):
        begin = max(len(messages) - 1, 0) // PAGE_TURNS * PAGE_TURNS
    names = {span.span_id: span.name for span in spans}
    origins = _origins(reading, names)
    window = messages[begin : begin + PAGE_TURNS]
    shown = conversation(window, failed=failed_calls(reading.tool_calls), keeps_empty=True)
    longest = max(reading.spans, key=lambda span_id: len(speaking(reading.spans[span_id])), default="")
    has_messages = bool(reading.conversation)
    other = Origin(span_id=longest, span_name=names.get(longest, ""), of="input_messages") if has_messages else None
    turns = [
        Turn(message=each, origin=origins.get(_key(message), other))
        for each, message in zip(shown, window, strict=True)
        if each.pieces or not each.is_folded
    ]
    return TraceTalk(
        turns=turns,
        begin=begin,
        total=len(messages),
        has_messages=has_messages,
        calls=calls_beside(messages, turn.tool_calls),
    )


def _origins(reading: TraceReading, names: Mapping[str, str]) -> Mapping[str, Origin]:
    """Return for each message the first span whose output has it, else the first whose input has it."""
    origins: dict[str, Origin] = {}
    for field in ("output_messages", "input_messages"):
        for span_id, each in reading.spans.items():
            for number, message in enumerate(getattr(each, field) or ()):
                origin = Origin(span_id=span_id, span_name=names.get(span_id, span_id), of=f"{field}.{number}")
                origins.setdefault(_key(message), origin)
    return origins


def _key(message: Message) -> str:
    return json.dumps([message.get("role"), message.get("parts")], sort_keys=True, default=str)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallsView:
    """A window of some tool calls of a trace."""

    calls: Sequence[TraceToolCall]
    begin: int
    total: int
    failed: int

    @property
    def before(self) -> int | None:
        """Return the start of the window before this one."""
        return max(self.begin - PAGE_CALLS, 0) if self.begin else None

    @property
    def after(self) -> int | None:
        """Return the start of the next window."""
        return self.begin + PAGE_CALLS if self.begin + PAGE_CALLS < self.total else None


def calls_view(calls: Sequence[TraceToolCall], *, begin: int | None) -> CallsView:
    """Return the window that begins at `begin`, or the first one."""
    at = begin if begin is not None and 0 <= begin < len(calls) else 0
    failed = sum(call.is_error for call in calls)
    return CallsView(calls=calls[at : at + PAGE_CALLS], begin=at, total=len(calls), failed=failed)
