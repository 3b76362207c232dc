"""One span with all of its content."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from collector.conventions.own_keys import OwnKeys
from collector.conventions.trace import read_trace
from collector.web.spans.conversation import MOST_MESSAGES, ShownMessage, conversation, parts_of
from evaluators.chat.images import Image, image_of
from storage.query.outline import WholeSpan
from storage.records import AttributeValue, LogRecord, Message, Span, SpanEvent, SpanReading

_KINDS: Final = ("unspecified", "internal", "server", "client", "producer", "consumer")
_ATTRIBUTE: Final = "attribute:"
MOST_ITEMS: Final = 100
"""Events, links and log records shown of one span. A guess: a streaming span may carry an event for each token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """A span, the fields read from its attributes (`reading`), and its messages for display."""

    span: Span
    reading: SpanReading
    messages: Sequence[ShownMessage]
    answered: Sequence[ShownMessage]
    events: Sequence[SpanEvent]
    logs: Sequence[LogRecord]
    trace_start_ns: int

    @property
    def kind(self) -> str:
        """Return OTLP's kind in words."""
        return _KINDS[self.span.kind] if 0 <= self.span.kind < len(_KINDS) else _KINDS[0]

    @property
    def duration_ms(self) -> float | None:
        """Return its duration."""
        start_ns, end_ns = self.span.start_ns, self.span.end_ns
        return (end_ns - start_ns) / 1e6 if start_ns and end_ns else None

    @property
    def offset_ms(self) -> float | None:
        """Return its start, relative to that of the trace."""
        return (self.span.start_ns - self.trace_start_ns) / 1e6 if self.span.start_ns else None

    def offset_of(self, time_ns: int) -> float | None:
        """Return an instant relative to the start of the trace."""
        return (time_ns - self.trace_start_ns) / 1e6 if time_ns else None

    @property
    def attributes(self) -> Mapping[str, AttributeValue]:
        """Return the attributes, sorted by name."""
        return dict(sorted(self.span.attributes.items()))


def detail_of(whole: WholeSpan, own: OwnKeys, trace_start_ns: int) -> Detail:
    """Return what the page of a span shows."""
    reading = _reading(whole, own)
    return Detail(
        span=whole.span,
        reading=reading,
        messages=_shown_messages(reading.input_messages),
        answered=_shown_messages(reading.output_messages),
        events=whole.span.events[:MOST_ITEMS],
        logs=whole.logs[:MOST_ITEMS],
        trace_start_ns=trace_start_ns,
    )


def text_of(whole: WholeSpan, of: str, own: OwnKeys) -> str | None:
    """Return a text of a span, uncut; None if the span has no text `of`."""
    if of.startswith(_ATTRIBUTE):
        return _as_text(whole.span.attributes.get(of.removeprefix(_ATTRIBUTE)))
    reading = _reading(whole, own)
    field, _, number = of.partition(".")
    if number:
        messages = getattr(reading, field) if field in _MESSAGES else None
        place = int(number) if _is_place(number) else -1
        return _message_text(messages[place]) if messages and 0 <= place < len(messages) else None
    return _as_text(getattr(reading, of)) if of in _TEXTS else None


def picture_of(whole: WholeSpan, of: str, place: str, own: OwnKeys) -> Image | None:
    """Return a picture in a message: `place` is `MESSAGE.PART` in a list of messages, `PART` in a single one."""
    field, _, number = of.partition(".")
    at = [each for each in (number, *place.split(".")) if each]
    if field not in _MESSAGES or len(at) != 2 or not all(_is_place(each) for each in at):  # noqa: PLR2004 - a message, a part
        return None
    messages: Sequence[Message] | None = getattr(_reading(whole, own), field)
    message, part = map(int, at)
    parts = parts_of(messages[message]) if messages and message < len(messages) else []
    return image_of(parts[part]) if part < len(parts) else None


def _is_place(text: str) -> bool:
    return text.isdecimal() and len(text) <= _MOST_DIGITS


def _message_text(message: Message) -> str | None:
    parts = parts_of(message)
    if parts and all(part.get("type") == "text" for part in parts):
        return "\n\n".join(str(part.get("content") or "") for part in parts)
    return _as_text(message)


_MESSAGES: Final = ("input_messages", "output_messages")
_MOST_DIGITS: Final = 7
_TEXTS: Final = ("input", "output", "input_messages", "output_messages", "tool_arguments", "tool_result", "error")


def _reading(whole: WholeSpan, own: OwnKeys) -> SpanReading:
    return read_trace((whole.span,), whole.logs, own).spans[whole.span.span_id]


def _shown_messages(messages: Sequence[Message] | None) -> list[ShownMessage]:
    all_messages = messages or ()
    return conversation(all_messages[-MOST_MESSAGES:], first=max(len(all_messages) - MOST_MESSAGES, 0))


def _as_text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)
