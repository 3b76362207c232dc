"""Stored traces back to OTLP."""

import base64
from collections.abc import Iterable, Mapping
from typing import Any

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1 import common_pb2
from opentelemetry.proto.resource.v1 import resource_pb2
from opentelemetry.proto.trace.v1 import trace_pb2

from storage.records import AttributeValue, Event, Link, Resource, Scope, Span, Trace

_UINT64 = 1 << 64


def protobuf_request(traces: Iterable[Trace]) -> ExportTraceServiceRequest:
    """The request that would send the traces, their spans under their resources and scopes."""
    request = ExportTraceServiceRequest()
    resources: dict[tuple[bytes, str], trace_pb2.ResourceSpans] = {}
    scopes: dict[tuple[int, bytes, str], trace_pb2.ScopeSpans] = {}
    for trace in traces:
        for span in trace.spans:
            resource, resource_url = _resource(span.resource), span.resource.schema_url
            resource_key = (resource.SerializeToString(deterministic=True), resource_url)
            resource_spans = resources.get(resource_key)
            if resource_spans is None:
                resource_spans = request.resource_spans.add(resource=resource, schema_url=resource_url)
                resources[resource_key] = resource_spans
            scope, scope_url = _scope(span.scope), span.scope.schema_url
            scope_key = (id(resource_spans), scope.SerializeToString(deterministic=True), scope_url)
            scope_spans = scopes.get(scope_key)
            if scope_spans is None:
                scope_spans = resource_spans.scope_spans.add(scope=scope, schema_url=scope_url)
                scopes[scope_key] = scope_spans
            scope_spans.spans.append(_span(span))
    return request


def json_request(trace: Trace) -> dict[str, Any]:
    """The OTLP/JSON request that would send the trace: ids in hex, enums as numbers."""
    document = json_format.MessageToDict(protobuf_request([trace]), use_integers_for_enums=True)
    for resource_spans in document["resourceSpans"]:
        for scope_spans in resource_spans["scopeSpans"]:
            for span in scope_spans["spans"]:
                for message in (span, *span.get("links", [])):
                    _hex_ids(message)
    return document


def _hex_ids(message: dict[str, Any]) -> None:
    for name in ("traceId", "spanId", "parentSpanId"):
        if name in message:
            message[name] = base64.b64decode(message[name]).hex()


def _span(span: Span) -> trace_pb2.Span:
    return trace_pb2.Span(
        trace_id=bytes.fromhex(span.trace_id),
        span_id=bytes.fromhex(span.span_id),
        parent_span_id=bytes.fromhex(span.parent_span_id or ""),
        trace_state=span.trace_state,
        flags=span.flags,
        name=span.name,
        kind=span.kind,  # type: ignore[arg-type] # open enum: any number that came
        start_time_unix_nano=span.start_ns % _UINT64,
        end_time_unix_nano=(span.end_ns or 0) % _UINT64,
        attributes=_attributes(span.attributes),
        dropped_attributes_count=span.dropped_attributes_count,
        events=[_event(event) for event in span.events],
        dropped_events_count=span.dropped_events_count,
        links=[_link(link) for link in span.links],
        dropped_links_count=span.dropped_links_count,
        status=trace_pb2.Status(code=span.status_code, message=span.status_message),  # type: ignore[arg-type] # likewise
    )


def _event(event: Event) -> trace_pb2.Span.Event:
    return trace_pb2.Span.Event(
        time_unix_nano=event.time_ns % _UINT64,
        name=event.name,
        attributes=_attributes(event.attributes),
        dropped_attributes_count=event.dropped_attributes_count,
    )


def _link(link: Link) -> trace_pb2.Span.Link:
    return trace_pb2.Span.Link(
        trace_id=bytes.fromhex(link.trace_id),
        span_id=bytes.fromhex(link.span_id),
        trace_state=link.trace_state,
        attributes=_attributes(link.attributes),
        dropped_attributes_count=link.dropped_attributes_count,
        flags=link.flags,
    )


def _resource(resource: Resource) -> resource_pb2.Resource:
    message = resource_pb2.Resource(
        attributes=_attributes(resource.attributes), dropped_attributes_count=resource.dropped_attributes_count
    )
    for ref in resource.entity_refs:
        message.entity_refs.add(
            schema_url=ref.schema_url, type=ref.type, id_keys=ref.id_keys, description_keys=ref.description_keys
        )
    return message


def _scope(scope: Scope) -> common_pb2.InstrumentationScope:
    return common_pb2.InstrumentationScope(
        name=scope.name,
        version=scope.version,
        attributes=_attributes(scope.attributes),
        dropped_attributes_count=scope.dropped_attributes_count,
    )


def _attributes(attributes: Mapping[str, AttributeValue]) -> list[common_pb2.KeyValue]:
    return [common_pb2.KeyValue(key=key, value=_any_value(value)) for key, value in attributes.items()]


def _any_value(value: AttributeValue) -> common_pb2.AnyValue:
    match value:
        case None:
            return common_pb2.AnyValue()
        case bool():
            return common_pb2.AnyValue(bool_value=value)
        case int():
            return common_pb2.AnyValue(int_value=value)
        case float():
            return common_pb2.AnyValue(double_value=value)
        case str():
            return common_pb2.AnyValue(string_value=value)
        case bytes():
            return common_pb2.AnyValue(bytes_value=value)
        case list():
            return common_pb2.AnyValue(array_value=common_pb2.ArrayValue(values=[_any_value(item) for item in value]))
        case _:
            return common_pb2.AnyValue(kvlist_value=common_pb2.KeyValueList(values=_attributes(value)))
