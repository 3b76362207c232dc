"""Stored spans back to OTLP/JSON: ids in hex, enums and 32-bit numbers as numbers, 64-bit numbers as text.

Default values are left out, except the name, the start and the status of a span: `spans_in` counts the key of
the start. Each span becomes text by itself: as one document of 512 spans they take a third more CPU, most of it
Python's search for cycles among so many dictionaries.
"""

import base64
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from pydantic_core import to_json

from storage.records import AttributeValue, Link, Resource, Scope, Span, SpanEvent

LINE_BYTES: Final = 1 << 20
"""The most bytes of a line, unless it holds a single span. Programs that read files by lines have a limit: the file
receivers of the OpenTelemetry Collector have this one by default (`max_log_size`), and cut what is longer in two."""

LINES_TYPE: Final = "application/x-ndjson"
_BEFORE, _AFTER = b'{"resourceSpans":[', b"]}"
_SPAN_MARK: Final = b'"startTimeUnixNano":'

_Document = dict[str, Any]


def json_lines(batches: Iterable[Sequence[Span]]) -> Iterator[bytes]:
    """Yield requests that would send the spans, one per line, each with spans of one batch."""
    for spans in batches:
        for group in _groups(spans, LINE_BYTES - len(_BEFORE + _AFTER) - 1):
            yield _BEFORE + group + _AFTER + b"\n"


def json_document(batches: Iterable[Sequence[Span]]) -> Iterator[bytes]:
    """Yield the pieces of one request with all spans; a resource may occur in it more than once."""
    before = _BEFORE
    for spans in batches:
        yield before + resource_spans(spans)
        before = b","
    yield _BEFORE + _AFTER if before is _BEFORE else _AFTER


def resource_spans(spans: Sequence[Span]) -> bytes:
    """Encode spans under their resources and scopes: `ResourceSpans` messages with commas between them."""
    return b",".join(_groups(spans, None))


def spans_in(text: bytes) -> int:
    """Count the spans in a text of ours: in a string, the quotes around the key would be escaped."""
    return text.count(_SPAN_MARK)


def _groups(spans: Sequence[Span], most_bytes: int | None) -> Iterator[bytes]:
    """Yield the spans, in order, in as few texts as possible below the size, unless a span alone exceeds it."""
    heads, group = _Heads(), _Group()
    for span in spans:
        resource, scope, text = heads.resource(span.resource), heads.scope(span.scope), to_json(_span(span))
        if most_bytes is not None and group.nbytes and group.with_span(resource, scope, text) > most_bytes:
            yield group.text()
            group = _Group()
        group.add(resource, scope, text)
    if group.nbytes:
        yield group.text()


class _Heads:
    """Cache of the text before the spans of each resource and scope. Spans of one batch share the records."""

    def __init__(self) -> None:
        self._heads: dict[int, bytes] = {}

    def resource(self, resource: Resource) -> bytes:
        """Return the text before the scopes of a resource."""
        head = self._heads.get(id(resource))
        if head is None:
            head = self._heads[id(resource)] = _opened(_resource(resource), "scopeSpans")
        return head

    def scope(self, scope: Scope) -> bytes:
        """Return the text before the spans of a scope."""
        head = self._heads.get(id(scope))
        if head is None:
            head = self._heads[id(scope)] = _opened(_scope(scope), "spans")
        return head


def _opened(document: _Document, last: str) -> bytes:
    return to_json(document | {last: []})[: -len(_AFTER)]


class _Group:
    """Encoded spans, grouped under the encoded heads of their resources and scopes."""

    def __init__(self) -> None:
        self._spans: dict[bytes, dict[bytes, list[bytes]]] = {}
        self.nbytes = 0  # 0 without any span; at least as many as its text has

    def with_span(self, resource: bytes, scope: bytes, text: bytes) -> int:
        """Return the size in bytes with one more span."""
        scopes = self._spans.get(resource)
        around = 1 + len(_AFTER)  # the comma after its end
        return (
            self.nbytes
            + (len(resource) + around if scopes is None else 0)
            + (len(scope) + around if scopes is None or scope not in scopes else 0)
            + len(text)
            + 1
        )

    def add(self, resource: bytes, scope: bytes, text: bytes) -> None:
        """Take one more span."""
        self.nbytes = self.with_span(resource, scope, text)
        self._spans.setdefault(resource, {}).setdefault(scope, []).append(text)

    def text(self) -> bytes:
        """Return the text of all spans."""
        return b",".join(
            resource + b",".join(scope + b",".join(spans) + _AFTER for scope, spans in scopes.items()) + _AFTER
            for resource, scopes in self._spans.items()
        )


def _resource(resource: Resource) -> _Document:
    refs = [
        _given(
            schemaUrl=ref.schema_url,
            type=ref.type,
            idKeys=list(ref.id_keys),
            descriptionKeys=list(ref.description_keys),
        )
        for ref in resource.entity_refs
    ]
    fields = _given(
        attributes=_attributes(resource.attributes),
        droppedAttributesCount=resource.dropped_attributes_count,
        entityRefs=refs,
    )
    return {"resource": fields} | _given(schemaUrl=resource.schema_url)


def _scope(scope: Scope) -> _Document:
    fields = _given(
        name=scope.name,
        version=scope.version,
        attributes=_attributes(scope.attributes),
        droppedAttributesCount=scope.dropped_attributes_count,
    )
    return {"scope": fields} | _given(schemaUrl=scope.schema_url)


def _span(span: Span) -> _Document:
    start_ns, end_ns, *moments = span.sent_times or (
        span.start_ns,
        span.end_ns or 0,
        *(each.time_ns for each in span.events),
    )
    return {
        "traceId": span.trace_id,
        "spanId": span.span_id,
        "name": span.name,
        "startTimeUnixNano": str(start_ns),
        **_given(
            parentSpanId=span.parent_span_id,
            traceState=span.trace_state,
            flags=span.flags,
            kind=span.kind,
            endTimeUnixNano=end_ns and str(end_ns),
            attributes=_attributes(span.attributes),
            droppedAttributesCount=span.dropped_attributes_count,
            events=[_event(event, at_ns) for event, at_ns in zip(span.events, moments, strict=True)],
            droppedEventsCount=span.dropped_events_count,
            links=[_link(link) for link in span.links],
            droppedLinksCount=span.dropped_links_count,
        ),
        "status": _given(code=span.status_code, message=span.status_message),
    }


def _event(event: SpanEvent, time_ns: int) -> _Document:
    return _given(
        timeUnixNano=time_ns and str(time_ns),
        name=event.name,
        attributes=_attributes(event.attributes),
        droppedAttributesCount=event.dropped_attributes_count,
    )


def _link(link: Link) -> _Document:
    return _given(
        traceId=link.trace_id,
        spanId=link.span_id,
        traceState=link.trace_state,
        attributes=_attributes(link.attributes),
        droppedAttributesCount=link.dropped_attributes_count,
        flags=link.flags,
    )


def _given(**fields: object) -> _Document:
    return {name: value for name, value in fields.items() if value}


def _attributes(attributes: Mapping[str, AttributeValue]) -> list[_Document]:
    return [{"key": key, "value": _VALUES[type(value)](value)} for key, value in attributes.items()]


def _double(value: float) -> _Document:
    if math.isfinite(value):
        return {"doubleValue": value}
    return {"doubleValue": "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"}


_VALUES: Final[Mapping[type, Callable[[Any], _Document]]] = {
    type(None): lambda _: {},
    str: lambda value: {"stringValue": value},
    bool: lambda value: {"boolValue": value},
    int: lambda value: {"intValue": str(value)},
    float: _double,
    bytes: lambda value: {"bytesValue": base64.b64encode(value).decode("ascii")},
    list: lambda value: {"arrayValue": {"values": [_VALUES[type(item)](item) for item in value]}},
    dict: lambda value: {"kvlistValue": {"values": _attributes(value)}},
}


Attribute: TypeAlias = str | float | int | bool | None


def key_values(attributes: Mapping[str, Attribute]) -> list[KeyValue]:
    """Encode attributes, without those that are None."""
    return [KeyValue(key=key, value=_any_value(value)) for key, value in attributes.items() if value is not None]


def _any_value(value: str | float | bool) -> AnyValue:  # noqa: FBT001 - the value of an attribute may be a bool
    match value:
        case bool():
            return AnyValue(bool_value=value)
        case int():
            return AnyValue(int_value=value)
        case float():
            return AnyValue(double_value=value)
        case str():
            return AnyValue(string_value=value)
