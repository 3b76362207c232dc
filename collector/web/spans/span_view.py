"""One span with all that it said."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from collector.conventions.own import OwnKeys
from collector.conventions.trace import read_trace
from collector.web.spans.conversation import MOST_MESSAGES, ShownMessage, conversation, parts_of
from evaluators.chat.pictures import Image, image_of
from storage.query.outline import WholeSpan
from storage.records import AttributeValue, LogRecord, Message, Span, SpanEvent, SpanReading

_KINDS: Final = ("unspecified", "internal", "server", "client", "producer", "consumer")
_ATTRIBUTE: Final = "attribute:"
MOST_ITEMS: Final = 100
"""Events, links and log records shown of one span. A guess: a streaming span may carry an event for each token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """A span, what it means, and its messages as they are shown."""

    span: Span
    reading: SpanReading
    said: Sequence[ShownMessage]
    answered: Sequence[ShownMessage]
    events: Sequence[SpanEvent]
    logs: Sequence[LogRecord]
    trace_start_ns: int

    @property
    def kind(self) -> str:
        """OTLP's kind in words."""
        return _KINDS[self.span.kind] if 0 <= self.span.kind < len(_KINDS) else _KINDS[0]

    @property
    def duration_ms(self) -> float | None:
        """How long it took."""
        start_ns, end_ns = self.span.start_ns, self.span.end_ns
        return (end_ns - start_ns) / 1e6 if start_ns and end_ns else None

    @property
    def offset_ms(self) -> float | None:
        """How long after the trace it began."""
        return (self.span.start_ns - self.trace_start_ns) / 1e6 if self.span.start_ns else None

    def offset_of(self, time_ns: int) -> float | None:
        """How long after the trace something of it was."""
        return (time_ns - self.trace_start_ns) / 1e6 if time_ns else None

    @property
    def attributes(self) -> Mapping[str, AttributeValue]:
        """By name."""
        return dict(sorted(self.span.attributes.items()))


def detail_of(found: WholeSpan, own: OwnKeys, trace_start_ns: int) -> Detail:
    """A span as it is shown."""
    reading = _reading(found, own)
    return Detail(
        span=found.span,
        reading=reading,
        said=_shown_messages(reading.input_messages),
        answered=_shown_messages(reading.output_messages),
        events=found.span.events[:MOST_ITEMS],
        logs=found.logs[:MOST_ITEMS],
        trace_start_ns=trace_start_ns,
    )


def text_of(found: WholeSpan, of: str, own: OwnKeys) -> str | None:
    """The whole of one of its texts; None where it has no such one."""
    if of.startswith(_ATTRIBUTE):
        return _as_text(found.span.attributes.get(of.removeprefix(_ATTRIBUTE)))
    reading = _reading(found, own)
    field, _, number = of.partition(".")
    if number:
        messages = getattr(reading, field) if field in _MESSAGES else None
        place = int(number) if _is_place(number) else -1
        return _message_text(messages[place]) if messages and 0 <= place < len(messages) else None
    return _as_text(getattr(reading, of)) if of in _TEXTS else None


def picture_of(found: WholeSpan, of: str, place: str, own: OwnKeys) -> Image | None:
    """A picture that a message of it carries: of a list of messages that of `MESSAGE.PART`, of one message its part."""
    field, _, number = of.partition(".")
    at = [each for each in (number, *place.split(".")) if each]
    if field not in _MESSAGES or len(at) != 2 or not all(_is_place(each) for each in at):  # noqa: PLR2004 - a message, a part
        return None
    messages: Sequence[Message] | None = getattr(_reading(found, own), field)
    message, part = map(int, at)
    parts = parts_of(messages[message]) if messages and message < len(messages) else []
    return image_of(parts[part]) if part < len(parts) else None


def _is_place(text: str) -> bool:
    return text.isdecimal() and len(text) <= _MOST_DIGITS


def _message_text(message: Message) -> str | None:
    """The text of a message that is nothing else; of another one all of it."""
    parts = parts_of(message)
    if parts and all(part.get("type") == "text" for part in parts):
        return "\n\n".join(str(part.get("content") or "") for part in parts)
    return _as_text(message)


_MESSAGES: Final = ("input_messages", "output_messages")
_MOST_DIGITS: Final = 7
_TEXTS: Final = ("input", "output", "input_messages", "output_messages", "tool_arguments", "tool_result", "error")


def _reading(found: WholeSpan, own: OwnKeys) -> SpanReading:
    return read_trace((found.span,), found.logs, own).spans[found.span.span_id]


def _shown_messages(messages: Sequence[Message] | None) -> list[ShownMessage]:
    told = messages or ()
    return conversation(told[-MOST_MESSAGES:], first=max(len(told) - MOST_MESSAGES, 0))


def _as_text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)
