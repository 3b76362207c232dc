"""OTLP read with the ordinary protobuf classes, one span at a time: slow, plain, and independent of the decoder."""

from collections.abc import Iterable
from typing import Any

from google.protobuf import text_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from storage.records import AttributeValue


def flat(request: ExportTraceServiceRequest) -> list[tuple[ResourceSpans, ScopeSpans, Span]]:
    """Return every span with its resource and scope, in the order of the request."""
    return [
        (resource_spans, scope_spans, span)
        for resource_spans in request.resource_spans
        for scope_spans in resource_spans.scope_spans
        for span in scope_spans.spans
    ]


def is_valid(span: Span) -> bool:
    """Return whether the span is valid OTLP: ids of the right length and not all zero."""
    return (
        len(span.trace_id) == 16
        and any(span.trace_id)
        and len(span.span_id) == 8
        and any(span.span_id)
        and len(span.parent_span_id) in {0, 8}
    )


def plain(value: AnyValue) -> AttributeValue:
    """Return the value as Python has it; of a map's repeated keys the last."""
    match value.WhichOneof("value"):
        case None | "string_value_strindex":
            return None
        case "array_value":
            return [plain(item) for item in value.array_value.values]
        case "kvlist_value":
            return {pair.key: plain(pair.value) for pair in value.kvlist_value.values}
        case kind:
            scalar: AttributeValue = getattr(value, kind)
            return scalar


def plain_attributes(pairs: Iterable[KeyValue]) -> dict[str, AttributeValue]:
    """Return the attributes by key; of repeated keys the last, in its place."""
    attributes: dict[str, AttributeValue] = {}
    for pair in pairs:
        attributes.pop(pair.key, None)
        attributes[pair.key] = plain(pair.value)
    return attributes


def exact(value: object) -> object:
    """Return the value in a form that separates 1 from 1.0 and True, -0.0 from 0.0, and in which NaN equals NaN."""
    match value:
        case dict():
            return [(key, exact(item)) for key, item in value.items()]
        case list() | tuple():
            return [exact(item) for item in value]
        case _:
            return f"{type(value).__name__} {value!r}"


def normal_spans(request: ExportTraceServiceRequest) -> list[str]:
    """Return every span as text, with its resource and scope, after the documented changes of the store.

    The last of repeated keys stays, a parent id of zeros is none, and unset fields get their defaults.
    """
    return [_normal(*each) for each in flat(request)]


def _normal(resource_spans: ResourceSpans, scope_spans: ScopeSpans, span: Span) -> str:
    above = ResourceSpans()
    above.MergeFrom(resource_spans)
    above.ClearField("scope_spans")
    above.resource.SetInParent()
    scope = above.scope_spans.add(schema_url=scope_spans.schema_url)
    scope.scope.MergeFrom(scope_spans.scope)
    scope.scope.SetInParent()
    own = scope.spans.add()
    own.MergeFrom(span)
    own.status.SetInParent()
    if not any(own.parent_span_id):
        own.ClearField("parent_span_id")
    holders: list[Any] = [above.resource, scope.scope, own, *own.events, *own.links]
    for holder in holders:
        kept = plain_attributes(holder.attributes)
        del holder.attributes[:]
        for key, value in kept.items():
            holder.attributes.add(key=key).value.CopyFrom(any_value(value))
    return text_format.MessageToString(above)


def any_value(value: AttributeValue) -> AnyValue:
    """Return the value as OTLP has it."""
    made = AnyValue()
    match value:
        case None:
            pass
        case bool():
            made.bool_value = value
        case int():
            made.int_value = value
        case float():
            made.double_value = value
        case str():
            made.string_value = value
        case bytes():
            made.bytes_value = value
        case list():
            made.array_value.SetInParent()
            made.array_value.values.extend(any_value(item) for item in value)
        case _:
            made.kvlist_value.SetInParent()
            for key, item in value.items():
                made.kvlist_value.values.add(key=key).value.CopyFrom(any_value(item))
    return made
