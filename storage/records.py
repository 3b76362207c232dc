"""The nouns that every package shares: frozen values, standard library only.

Nothing has a default: whoever builds a record says what every field is, so a field cannot get lost on the way.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

AttributeValue: TypeAlias = "bool | int | float | str | bytes | list[AttributeValue] | dict[str, AttributeValue] | None"
"""What OTLP's `AnyValue` can carry; None where nothing was set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityRef:
    """Which attributes of a resource identify and which describe one entity."""

    schema_url: str
    type: str
    id_keys: tuple[str, ...]
    description_keys: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """What produced a span: a service, its version, its host."""

    attributes: Mapping[str, AttributeValue]
    dropped_attributes_count: int
    schema_url: str
    entity_refs: tuple[EntityRef, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The instrumentation library that made a span."""

    name: str
    version: str
    attributes: Mapping[str, AttributeValue]
    dropped_attributes_count: int
    schema_url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened at one moment of a span, such as an exception."""

    time_ns: int  # since the Unix epoch; 0 when the sender set none
    name: str
    attributes: Mapping[str, AttributeValue]
    dropped_attributes_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A span that another one names as related, often in another trace."""

    trace_id: str  # lower-case hex; as long as it came, OTLP does not make links valid
    span_id: str
    trace_state: str
    attributes: Mapping[str, AttributeValue]
    dropped_attributes_count: int
    flags: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One timed operation in a trace, with everything that OTLP said about it."""

    tenant: str
    trace_id: str  # 32 lower-case hex digits
    span_id: str  # 16 lower-case hex digits
    parent_span_id: str | None  # None only for a root; the parent need not be stored
    name: str
    kind: int  # OTLP's SpanKind: 1 internal, 2 server, 3 client, 4 producer, 5 consumer
    start_ns: int  # since the Unix epoch; 0 when the sender set none
    end_ns: int | None  # None when the span never ended, which is 0 on the wire
    status_code: int  # OTLP's StatusCode: 0 unset, 1 ok, 2 error
    status_message: str
    attributes: Mapping[str, AttributeValue]
    events: tuple[Event, ...]
    links: tuple[Link, ...]
    trace_state: str
    flags: int
    dropped_attributes_count: int
    dropped_events_count: int
    dropped_links_count: int
    resource: Resource
    scope: Scope
    project: str
    service_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSummary:
    """One row of the list of traces."""

    trace_id: str
    tenant: str
    project: str
    service_name: str
    root_name: str
    start_ns: int
    end_ns: int | None  # None when no span of it ended
    span_count: int
    error_count: int
    expires_at_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """All stored spans of one trace, by start time."""

    summary: TraceSummary
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of an answer: its name and DuckDB's name of its type."""

    name: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The answer to an SQL query; `truncated` when there were more rows than were asked for."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[object, ...], ...]
    truncated: bool
