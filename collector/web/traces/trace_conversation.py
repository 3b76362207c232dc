"""The conversation of a trace, taken from its topmost span with messages; each turn has a link to its origin."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from collector.conventions.member import member_of
from collector.conventions.trace import speaking, talk_of
from collector.conventions.tree import tree_of
from collector.span_tree import in_tree_order
from collector.web.spans.conversation import ShownMessage, conversation, failed_calls
from storage.records import Message, Span, TraceReading, TraceToolCall

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
    teller: str | None  # the span whose conversation it is; None: no span has one

    @property
    def before(self) -> int | None:
        """Return the begin of the window before this one."""
        return max(self.begin - PAGE_TURNS, 0) if self.begin else None

    @property
    def after(self) -> int | None:
        """Return the begin of the next window."""
        return self.begin + PAGE_TURNS if self.begin + PAGE_TURNS < self.total else None


def trace_talk(spans: Sequence[Span], reading: TraceReading, *, begin: int | None) -> TraceTalk:
    """Return a window of the conversation of a trace: the one that begins at `begin`, or the last one."""
    teller, messages = _conversation_of(spans, reading)
    if begin is None or not 0 <= begin < max(len(messages), 1):
        begin = max(len(messages) - 1, 0) // PAGE_TURNS * PAGE_TURNS
    names = {span.span_id: span.name for span in spans}
    origins = _origins(reading, names)
    window = messages[begin : begin + PAGE_TURNS]
    shown = conversation(window, failed=failed_calls(reading.tool_calls), keeps_empty=True)
    turns = [Turn(message=each, origin=origins.get(_key(message))) for each, message in zip(shown, window, strict=True)]
    own = None if teller is None else Origin(span_id=teller, span_name=names[teller], of="input_messages")
    return TraceTalk(
        turns=[
            each if each.origin else Turn(message=each.message, origin=own) for each in turns if _says(each.message)
        ],
        begin=begin,
        total=len(messages),
        teller=teller,
    )


def _conversation_of(spans: Sequence[Span], reading: TraceReading) -> tuple[str | None, Sequence[Message]]:
    """Return the conversation of the root, else the longest of the topmost spans that have one.

    If no span has messages, the input and the output of the trace are its conversation.
    """
    depths = {node.span.span_id: node.depth for node in in_tree_order(spans)}
    best: tuple[int, int] | None = None
    chosen: tuple[str | None, Sequence[Message]] = (None, ())
    for span_id, each in reading.spans.items():
        messages = speaking(each)
        rank = (-depths.get(span_id, 0), len(messages))
        if messages and (best is None or rank >= best):
            best, chosen = rank, (span_id, messages)
    teller = chosen[0]
    if teller is None:
        return None, list(_texts(reading))
    if reading.spans[teller].span_type == "llm":
        known = [member_of(span, reading.spans[span.span_id]) for span in spans if span.span_id in reading.spans]
        tree = tree_of(known)
        return teller, talk_of(tree, tree.spans[teller])
    return chosen


def _texts(reading: TraceReading) -> Iterator[Message]:
    for role, text in (("user", reading.input), ("assistant", reading.output)):
        if text:
            yield {"role": role, "parts": [{"type": "text", "content": text}]}


def _origins(reading: TraceReading, names: Mapping[str, str]) -> Mapping[str, Origin]:
    """Return for each message the first span with it in its output, else the first with it in its input."""
    origins: dict[str, Origin] = {}
    for field in ("output_messages", "input_messages"):
        for span_id, each in reading.spans.items():
            for number, message in enumerate(getattr(each, field) or ()):
                origin = Origin(span_id=span_id, span_name=names.get(span_id, span_id), of=f"{field}.{number}")
                origins.setdefault(_key(message), origin)
    return origins


def _key(message: Message) -> str:
    return json.dumps([message.get("role"), message.get("parts")], sort_keys=True, default=str)


def _says(message: ShownMessage) -> bool:
    return bool(message.pieces) or not message.is_folded


@dataclass(frozen=True, slots=True, kw_only=True)
class CallsView:
    """A window of the tool calls in a trace."""

    calls: Sequence[TraceToolCall]
    begin: int
    total: int
    failed: int

    @property
    def before(self) -> int | None:
        """Return the begin of the window before this one."""
        return max(self.begin - PAGE_CALLS, 0) if self.begin else None

    @property
    def after(self) -> int | None:
        """Return the begin of the next window."""
        return self.begin + PAGE_CALLS if self.begin + PAGE_CALLS < self.total else None


def calls_view(calls: Sequence[TraceToolCall], *, begin: int | None) -> CallsView:
    """Return the window that begins at `begin`, or the first one."""
    at = begin if begin is not None and 0 <= begin < len(calls) else 0
    failed = sum(call.is_error for call in calls)
    return CallsView(calls=calls[at : at + PAGE_CALLS], begin=at, total=len(calls), failed=failed)
