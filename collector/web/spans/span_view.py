"""One span with all that it said."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from collector.conventions.own import OwnKeys
from collector.conventions.trace import read_trace
from collector.web.spans.talk import MOST_MESSAGES, ShownMessage, conversation
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
        said=_told(reading.input_messages),
        answered=_told(reading.output_messages),
        events=found.span.events[:MOST_ITEMS],
        logs=found.logs[:MOST_ITEMS],
        trace_start_ns=trace_start_ns,
    )


def text_of(found: WholeSpan, of: str, own: OwnKeys) -> str | None:
    """The whole of one of its texts; None where it has no such one."""
    if of.startswith(_ATTRIBUTE):
        return _as_text(found.span.attributes.get(of.removeprefix(_ATTRIBUTE)))
    reading = _reading(found, own)
    return _as_text(getattr(reading, of)) if of in _TEXTS else None


_TEXTS: Final = ("input", "output", "input_messages", "output_messages", "tool_arguments", "tool_result", "error")


def _reading(found: WholeSpan, own: OwnKeys) -> SpanReading:
    return read_trace((found.span,), found.logs, own).spans[found.span.span_id]


def _told(messages: Sequence[Message] | None) -> list[ShownMessage]:
    return conversation((messages or ())[-MOST_MESSAGES:])


def _as_text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)
