"""Fields of conditions: the columns of the view `spans`, any attribute, events, and the sums of a trace."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

FieldType: TypeAlias = Literal["text", "number"]
Row: TypeAlias = Mapping[str, object]
"""A row of the view `spans`, by column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field of a span: a column, or the value of a key in a column that is a map.

    In the column `events`, a number is the count of events that have the key as their name. A text is the value of the
    attribute with that key, in the first event that has it.
    """

    column: str
    type: FieldType
    key: str | None = None
    types: str | None = None  # the column with the types of the values, a letter for each, if it exists
    choices: tuple[str, ...] = ()  # the only texts that the column has; empty if it can have any

    def value(self, row: Row) -> str | float | None:
        """Return the value of a span in this field, or None."""
        value = row[self.column]
        if self.column == EVENTS:
            value = self._of_events(value)
        elif self.key is not None:
            value = self._key_value(value, row) if isinstance(value, Mapping) else None
        if self.type == "number":
            return float(value) if isinstance(value, int | float) else None
        return value if isinstance(value, str) else None

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that the field is read from."""
        return (self.column,) if self.types is None else (self.column, self.types)

    def _of_events(self, events: object) -> object:
        listed = [each for each in events if isinstance(each, Mapping)] if isinstance(events, list) else []
        if self.type == "number":
            return sum(event["name"] == self.key for event in listed) or None
        return next(self._values(listed), None)

    def _values(self, events: list[Mapping[str, object]]) -> Iterator[object]:
        for event in events:
            attributes = event["attributes"]
            value = attributes.get(self.key or "") if isinstance(attributes, Mapping) else None
            if value is not None:
                yield value

    def _key_value(self, values: Mapping[str, object], row: Row) -> object:
        # NaN and infinities of a double are not values; the same words as text are.
        value = values.get(self.key or "")
        letters = None if self.types is None or value not in NO_NUMBERS else row[self.types]
        return None if letters and str(letters)[list(values).index(self.key or "")] == DOUBLE else value


EVENTS: Final = "events"
"""The column of events."""

NO_NUMBERS: Final = ("nan", "inf", "-inf")
"""NaN and the infinities as the store spells them if an attribute is a number."""

DOUBLE: Final = "d"
"""The letter of attributes that are doubles; `storage.ingest.batch.TYPE_LETTERS` has all letters."""


def _text(column: str, *choices: str) -> Field:
    return Field(column=column, type="text", choices=choices)


def _number(column: str) -> Field:
    return Field(column=column, type="number")


FIELDS: Final[Mapping[str, Field]] = {
    "name": _text("name"),
    "kind": _text("kind", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER", "UNSPECIFIED"),
    "status": _text("status_code", "UNSET", "OK", "ERROR"),
    "status_message": _text("status_message"),
    "duration_ms": _number("duration_ms"),
    "service": _text("service_name"),
    "project": _text("project"),
    "scope": _text("scope_name"),
    "parent_span_id": _text("parent_span_id"),
    "span_type": _text("span_type", "agent", "llm", "tool", "retriever", "embedding", "chain", "evaluator", "other"),
    "dialect": _text("dialect"),
    "input": _text("input"),
    "output": _text("output"),
    "input_messages": _text("input_messages"),
    "output_messages": _text("output_messages"),
    "tool_name": _text("tool_name"),
    "tool_call_id": _text("tool_call_id"),
    "tool_arguments": _text("tool_arguments"),
    "tool_result": _text("tool_result"),
    "tool_definitions": _text("tool_definitions"),
    "model": _text("model"),
    "provider": _text("provider"),
    "input_tokens": _number("input_tokens"),
    "output_tokens": _number("output_tokens"),
    "cached_tokens": _number("cached_tokens"),
    "reasoning_tokens": _number("reasoning_tokens"),
    "cost_usd": _number("cost_usd"),
    "finish_reason": _text("finish_reason", "stop", "length", "tool_call", "content_filter", "error", "other"),
    "session_id": _text("session_id"),
    "user_id": _text("user_id"),
    "run_id": _text("run_id"),
    "item_key": _text("item_key"),
    "error": _text("error"),
    "error_type": _text("error_type"),
}
"""The fields that are columns of the view `spans`."""

TOTALS: Final[Mapping[str, Field]] = {
    f"trace.{name}": _number(f"trace_{name}")
    for name in (
        "span_count",
        "error_count",
        "tool_call_count",
        "duration_ms",
        "input_tokens",
        "output_tokens",
        "cost_usd",
    )
}
"""The totals of a span's trace: columns of the view `traces`, which rows of spans have with the prefix `trace_`."""

MAPS: Final[Mapping[str, str]] = {
    "attributes.": "attributes",
    "resource.": "resource_attributes",
    "event.": EVENTS,
    "events.": EVENTS,
}
"""Prefixes with their columns: `event.` precedes an attribute of events, `events.` the name of events to count."""

_COUNTING: Final = "events."


def field_of(name: str) -> Field | None:
    """Return the field of that name, or None."""
    for prefix, column in MAPS.items():
        if name.startswith(prefix) and name != prefix:
            types = "attribute_types" if column == "attributes" else None
            kind: FieldType = "number" if prefix == _COUNTING else "text"
            return Field(column=column, type=kind, key=name.removeprefix(prefix), types=types)
    return FIELDS.get(name) or TOTALS.get(name)
