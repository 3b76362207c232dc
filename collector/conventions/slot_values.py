"""Values of one span by slot: the candidates for each field, the kind, the dialect, and notes on what is missing."""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Protocol, Self

from collector.conventions import index
from collector.conventions.numbered import NumberedValues, grown
from collector.conventions.own_keys import OwnKeys
from collector.conventions.plan import ShapePlan, plan_of, shape_of
from collector.conventions.table import Dialect, FieldSource, Slot
from collector.conventions.values import (
    AS_PYTHON_WRITES,
    REDACTION,
    NotJson,
    at,
    clean,
    decode,
    encodable,
    is_redacted,
    looks_encoded,
    parsed,
    taken,
    text_of,
    why_redacted,
)
from storage.records import JsonValue, LogRecord, Message, Span, SpanEvent, SpanType

BLANKS = frozenset({"null", "N/A", "<not serializable>", "<not specified>", "(merged tools)", "<unknown>"})
"""Texts that frameworks write in place of a missing value."""

REDACTED = ("<REDACTED>", "[REDACTED]", "__REDACTED__", "REDACTED", "[Filtered]", "[Scrubbed due to")

_MESSAGES: frozenset[Slot] = frozenset({"input_messages", "output_messages", "trajectory", "system"})
_CONTENT: frozenset[Slot] = _MESSAGES | {
    "input", "output", "answer_text", "answer_reasoning", "answer_calls", "tool_arguments", "tool_result",
}  # fmt: skip
"""Slots in which a redaction marker does not count as a value."""

Candidate = tuple[float, FieldSource, object, str]  # rank, place, value, what to call its source
_NONE: list[Candidate] = []


class SpanFacts(Protocol):
    """The facts about a span that are not attributes."""

    @property
    def name(self) -> str: ...  # noqa: D102 - as on a span
    @property
    def status_code(self) -> int: ...  # noqa: D102
    @property
    def status_message(self) -> str: ...  # noqa: D102
    @property
    def events(self) -> Sequence[SpanEvent]: ...  # noqa: D102
    @property
    def dropped_attributes_count(self) -> int: ...  # noqa: D102


class Memo:
    """Memo of parsed texts, so that a text of several spans is parsed once."""

    __slots__ = ("decoded", "literals", "messages", "written")

    def __init__(self) -> None:
        self.decoded: dict[str, JsonValue | NotJson] = {}
        self.literals: set[str] = set()  # decoded texts that were Python literals, not JSON
        self.messages: dict[tuple[str, str, str], list[Message] | None] = {}  # by kind of search, role and text
        self.written: dict[int, tuple[list[Message], str]] = {}  # as JSON, by the identity of the list


class SlotValues:
    """The candidates for a span's fields, strongest first. `sources` records the key or event of each used value.

    `values` are the attribute values of the plan's keys, in the order of these keys.
    """

    __slots__ = ("_candidates", "_events", "_plan", "_values", "beside", "counts", "memo", "notes", "sources", "span")

    def __init__(
        self,
        plan: ShapePlan,
        values: NumberedValues,
        span: SpanFacts,
        logs: Sequence[LogRecord] = (),
        memo: Memo | None = None,
    ) -> None:
        self.span = span
        self.sources: dict[str, str] = {} if plan.dialect is None else {"dialect": plan.dialect_source}
        self.notes: list[str] = []
        self.beside: tuple[int, int] | None = None  # how many tokens input and output leave out
        self.counts: dict[Slot, int | None] = {}  # of tokens, as they were sent
        self._plan = plan
        self._values = values
        self._candidates: dict[Slot, list[Candidate]] = {}
        self._events: dict[Slot, list[Candidate]] = {}
        self.memo = Memo() if memo is None else memo
        for event in span.events:
            self._walk_event(event.name, event.attributes, "event")
        for log in logs:
            self._walk_event(log.event_name, _log_fields(log), "log")

    @classmethod
    def of(cls, span: Span, logs: Sequence[LogRecord], own: OwnKeys) -> Self:
        """Collect the values of a span and of the log records that belong to it."""
        shape = shape_of(
            span.attributes,
            scope=span.scope.name,
            resource=span.resource,
            name=span.name,
            own=own.of(span.project),
        )
        return cls(plan_of(shape), [taken(span.attributes[key]) for key in shape.keys], span, logs)

    @property
    def dialect(self) -> Dialect | None:
        """Return the dialect of the span."""
        return self._plan.dialect

    @property
    def kind(self) -> SpanType | None:
        """Return the kind of the span; None if unknown."""
        return self._plan.kind

    @property
    def kind_source(self) -> str:
        """Return the key or name that decides the kind."""
        return self._plan.kind_source

    @property
    def capture(self) -> str:
        """Return the setting with which the library sends content; empty if it is not known."""
        return self._plan.capture

    @property
    def has_one_switch(self) -> bool:
        """Return whether that setting is for inputs and outputs together."""
        return self._plan.dialect is not None and self._plan.dialect.has_one_switch

    @property
    def is_bare(self) -> bool:
        """Return True if only the name of a model decides the span type."""
        return self._plan.is_bare

    def candidates(self, slot: Slot) -> list[Candidate]:
        """Return the candidates of a field, strongest first, without those that count in another dialect only."""
        candidates = self._candidates.get(slot)
        if candidates is not None:
            return candidates
        leads = self._plan.leads.get(slot)
        of_events = self._events.get(slot) if self._events else None
        if not leads and of_events is None:
            return _NONE
        values, is_content = self._values, slot in _CONTENT
        candidates = [] if of_events is None else of_events
        for rank, place, number, source in leads or ():
            value = values[number]
            if is_content and not place.is_group and is_redacted(value):
                self.note(source if slot in _MESSAGES else slot, why_redacted(value))
            elif value is not None or place.is_group:
                candidates.append((rank, place, value, source))
        if of_events is not None:
            candidates.sort(key=itemgetter(0))
        self._candidates[slot] = candidates
        return candidates

    def tells(self, slot: Slot) -> bool:
        """Return True if the span has an attribute or event of any row about a field."""
        return slot in self._plan.mentioned or slot in self._events

    def tells_any(self, slots: frozenset[Slot]) -> bool:
        """Return whether any row of these slots matches."""
        return not slots.isdisjoint(self._plan.mentioned) or not slots.isdisjoint(self._events)

    def text(self, slot: Slot, field: str = "") -> str | None:
        """Return a text field; its name is that of its slot unless `field` is set."""
        field = field or slot
        for _, place, value, source in self.candidates(slot):
            inner = self.member(place, value, source) if place.path else value
            if place.path and slot in _CONTENT and is_redacted(inner):
                self.note(field, why_redacted(inner))
                continue
            text = text_of(inner)
            if text is None or not text or text.isspace():
                continue
            if text[0] == '"' and text[-1] == '"' and len(text) > 1:  # MLflow writes every value as JSON
                text = text_of(self.opened(text, source)) or text
            if text in BLANKS:
                self.notes.append(f"{field}: {source} holds only the placeholder {text}")
                continue
            self.sources[field] = source
            return text
        return None

    def member(self, place: FieldSource, value: object, source: str) -> JsonValue:
        """Return the value at a row's path in the JSON of its key; of numbered attributes, the joined texts there."""
        if place.is_group:
            texts = (at(item, place.path) for item in self.group(place.key))
            return "\n".join(text for text in texts if isinstance(text, str) and not is_redacted(text)) or None
        decoded = self.opened(value, source) if isinstance(value, str) else value
        return at(decoded, place.path)

    def opened(self, text: str, source: str) -> JsonValue:
        """Parse a text as JSON, else as a literal, once for all rows; return the text itself if it is neither."""
        decoded = self.memo.decoded.get(text)
        if decoded is None:
            decoded = self.memo.decoded[text] = self._decoded(text)
        if isinstance(decoded, NotJson):
            if text.lstrip()[:1] in ("{", "["):
                self._note_once(f"{source}: its JSON {decoded}, so it is shown as text")
            return text
        return decoded

    def _decoded(self, text: str) -> "JsonValue | NotJson":
        literal = parsed(text) if text.startswith(AS_PYTHON_WRITES) else text
        if isinstance(literal, str):
            try:
                decoded = decode(text if text.isascii() else encodable(text))
                return parsed(decoded) if isinstance(decoded, str) and looks_encoded(decoded) else decoded
            except NotJson as error:
                literal = parsed(text) if looks_encoded(text) else text
                if isinstance(literal, str):
                    return error
        self.memo.literals.add(text)
        return literal

    def group(self, key: str) -> list[JsonValue]:
        """Return the numbered attributes below a key as a list, by number."""
        group = self._plan.groups.get(key)
        listed = None if group is None else grown(group, self._values)
        return listed if isinstance(listed, list) else []

    def note(self, field: str, text: str) -> None:
        """Note why a field is not as expected."""
        self._note_once(f"{field}: {text}")

    def note_redacted(self, field: str, text: str) -> None:
        """Note that the sender redacted the content."""
        if len(text) < 200 and text.strip().startswith(REDACTED):  # noqa: PLR2004 - a marker, not an essay about one
            self.note(field, REDACTION)

    def _note_once(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def _walk_event(self, name: str, attributes: Mapping[str, object], origin: str) -> None:
        weaker = 1_000 if origin == "event" else 2_000
        for place in index.event_places(name):
            value = attributes.get(place.key)
            value = clean(value) if isinstance(value, dict | list) else value
            is_theirs = self._plan.dialect is not None and self._plan.dialect.name == place.dialect
            if value is not None and (is_theirs or not place.is_only):
                candidate = (place.rank + weaker, place, value, f"{origin} {name}")
                self._events.setdefault(place.slot, []).append(candidate)


def _log_fields(log: LogRecord) -> Mapping[str, object]:
    """Return the fields of a log record, from its attributes or its body."""
    body = log.body
    if isinstance(body, str) and looks_encoded(body):
        try:
            body = decode(body)  # type: ignore[assignment] # JSON is a part of what attributes can be
        except NotJson:
            body = log.body
    if not isinstance(body, dict):
        return log.attributes if body is None else {"content": body, **log.attributes}
    return {**log.attributes, **body}
