"""Small spans, log records and traces to be read, and short ways to read them."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from collector.conventions.own_keys import NO_KEYS, OwnKeys
from collector.conventions.span import read_span
from collector.conventions.trace import read_trace
from storage.records import AttributeValue, LogRecord, Resource, Scope, Span, SpanEvent, SpanReading, TraceReading

Attributes = Mapping[str, Any]
_numbers = itertools.count(1)
SECOND_NS = 1_000_000_000


def a_span(
    attributes: Attributes | None = None,
    *,
    name: str = "work",
    scope: str = "",
    parent: Span | str | None = None,
    start_s: float = 0,
    **fields: object,
) -> Span:
    """Build a span of a second; ids count up, so that later ones differ."""
    number = next(_numbers)
    start_ns = int(start_s * SECOND_NS) + SECOND_NS
    defaults: dict[str, object] = {
        "tenant": "",
        "trace_id": f"{1:032x}",
        "span_id": f"{number:016x}",
        "parent_span_id": parent.span_id if isinstance(parent, Span) else parent,
        "name": name,
        "kind": 1,
        "start_ns": start_ns,
        "end_ns": start_ns + SECOND_NS // 2,
        "status_code": 0,
        "status_message": "",
        "attributes": attributes or {},
        "events": (),
        "links": (),
        "trace_state": "",
        "flags": 0,
        "dropped_attributes_count": 0,
        "dropped_events_count": 0,
        "dropped_links_count": 0,
        "resource": a_resource(),
        "scope": Scope(name=scope, version="", attributes={}, dropped_attributes_count=0, schema_url=""),
        "project": "shop",
        "service_name": "shop",
        "sent_times": (),
    }
    return Span(**(defaults | fields))  # type: ignore[arg-type] # the fields of a span by their names


def a_resource(**attributes: AttributeValue) -> Resource:
    """Build a resource; underscores in names stand for dots."""
    named = {key.replace("_", "."): value for key, value in attributes.items()}
    return Resource(attributes=named, dropped_attributes_count=0, schema_url="", entity_refs=())


def an_event(name: str, attributes: Attributes | None = None, time_ns: int = 1) -> SpanEvent:
    """Build an event of a span."""
    return SpanEvent(time_ns=time_ns, name=name, attributes=attributes or {}, dropped_attributes_count=0)


def a_log(
    span: Span,
    event_name: str,
    body: AttributeValue = None,
    attributes: Attributes | None = None,
    time_ns: int = 1,
) -> LogRecord:
    """Build a log record that belongs to a span."""
    return LogRecord(
        tenant="",
        trace_id=span.trace_id,
        span_id=span.span_id,
        time_ns=time_ns,
        event_name=event_name,
        body=body,
        attributes=attributes or {},
    )


def read(
    attributes: Attributes | None = None, *, logs: Sequence[LogRecord] = (), own: OwnKeys = NO_KEYS, **fields: object
) -> SpanReading:
    """Read a span with these attributes."""
    return read_span(a_span(attributes, **fields), logs, own)  # type: ignore[arg-type] # the fields of a span


def read_all(*spans: Span, logs: Sequence[LogRecord] = ()) -> TraceReading:
    """Read spans and log records as one trace."""
    return read_trace(spans, logs, NO_KEYS)


def text(role: str, content: str) -> Any:
    """Return a message of one text."""
    return {"role": role, "parts": [{"type": "text", "content": content}]}


def call(name: str, arguments: AttributeValue, call_id: str | None = None) -> Any:
    """Return a message of the model that asks for a call."""
    return {"role": "assistant", "parts": [{"type": "tool_call", "id": call_id, "name": name, "arguments": arguments}]}


def response(value: AttributeValue, call_id: str | None = None) -> Any:
    """Return a message with the result of a tool."""
    return {"role": "tool", "parts": [{"type": "tool_call_response", "id": call_id, "response": value}]}
