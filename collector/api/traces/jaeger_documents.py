"""Traces in the JSON of Jaeger's query API. Times are whole microseconds since the Unix epoch."""

import base64
import json
from collections.abc import Iterable, Mapping

from fastapi.responses import JSONResponse, Response

from collector.api.base.json_encoding import written_in_pieces
from collector.api.responses.base import json_value
from storage.records import AttributeValue, Link, Resource, Span, SpanEvent, Trace

Document = dict[str, object]

KINDS = {"internal": 1, "server": 2, "client": 3, "producer": 4, "consumer": 5}
_NAMES = {number: name for name, number in KINDS.items()}
_STATUSES = {1: "OK", 2: "ERROR"}
_ERROR = 2


def answer(data: list[object] | list[str] | list[Document]) -> Response:
    """Return a response in Jaeger's format."""
    return written_in_pieces({"data": data, "total": len(data), "limit": 0, "offset": 0, "errors": None})


def failure(status: int, message: str) -> JSONResponse:
    """Return an error response in Jaeger's format."""
    errors = [{"code": status, "msg": message}]
    return JSONResponse({"data": None, "total": 0, "limit": 0, "offset": 0, "errors": errors}, status_code=status)


def operation_documents(operations: Iterable[tuple[str, int]], span_kind: str) -> list[Document]:
    """Return operations with their span kinds; only those of `span_kind`, if it is a kind."""
    kind = KINDS.get(span_kind.lower())
    return [{"name": name, "spanKind": _NAMES.get(each, "")} for name, each in operations if kind in {None, each}]


def trace_document(trace: Trace) -> Document:
    """Return a trace in Jaeger's format: its spans, and the processes that they reference."""
    processes: dict[int, str] = {}
    documents: dict[str, Document] = {}
    spans = []
    for span in trace.spans:
        key = id(span.resource)
        if key not in processes:
            processes[key] = f"p{len(processes) + 1}"
            documents[processes[key]] = _process(span.resource, span.service_name)
        spans.append(_span(span, processes[key]))
    missing = trace.summary.span_count - len(trace.spans)
    warnings = [f"{missing} more spans are not shown"] if missing > 0 else None
    return {"traceID": trace.summary.trace_id, "spans": spans, "processes": documents, "warnings": warnings}


def _process(resource: Resource, service: str) -> Document:
    tags = ((key, value) for key, value in resource.attributes.items() if key != "service.name")
    return {"serviceName": service, "tags": _tags(tags)}


def _span(span: Span, process: str) -> Document:
    end_ns = span.start_ns if span.end_ns is None else span.end_ns
    return {
        "traceID": span.trace_id,
        "spanID": span.span_id,
        "flags": span.flags & 0xFF,
        "operationName": span.name,
        "references": _references(span),
        "startTime": span.start_ns // 1000,
        "duration": max(0, end_ns - span.start_ns) // 1000,
        "tags": _tags(span.attributes.items()) + _tags(_field_tags(span).items()),
        "logs": [_log(event) for event in span.events],
        "processID": process,
        "warnings": ["this span has not ended"] if span.end_ns is None else None,
    }


def _field_tags(span: Span) -> dict[str, AttributeValue]:
    """Return, as tags, the values for which OTLP has fields."""
    tags: dict[str, AttributeValue] = {}
    if span.kind in _NAMES:
        tags["span.kind"] = _NAMES[span.kind]
    if span.status_code in _STATUSES:
        tags["otel.status_code"] = _STATUSES[span.status_code]
    if span.status_message:
        tags["otel.status_description"] = span.status_message
    if span.status_code == _ERROR and "error" not in span.attributes:
        tags["error"] = True
    if span.scope.name:
        tags["otel.scope.name"] = span.scope.name
    if span.scope.version:
        tags["otel.scope.version"] = span.scope.version
    if span.trace_state:
        tags["w3c.tracestate"] = span.trace_state
    return tags


def _references(span: Span) -> list[Document]:
    parent = [] if span.parent_span_id is None else [_reference("CHILD_OF", span.trace_id, span.parent_span_id)]
    return parent + [_link(link) for link in span.links]


def _link(link: Link) -> Document:
    return _reference("FOLLOWS_FROM", link.trace_id, link.span_id)


def _reference(kind: str, trace_id: str, span_id: str) -> Document:
    return {"refType": kind, "traceID": trace_id, "spanID": span_id}


def _log(event: SpanEvent) -> Document:
    fields: dict[str, AttributeValue] = {"event": event.name} if event.name else {}
    return {"timestamp": event.time_ns // 1000, "fields": _tags((fields | dict(event.attributes)).items())}


def _tags(values: Iterable[tuple[str, AttributeValue]]) -> list[Document]:
    return [{"key": key, **_typed(value)} for key, value in values]


def _typed(value: AttributeValue) -> Document:
    """Return a value with Jaeger's name for its type; arrays and maps as JSON strings."""
    match value:
        case bool():
            return {"type": "bool", "value": value}
        case int():
            return {"type": "int64", "value": value}
        case float():
            return {"type": "float64", "value": json_value(value)}
        case bytes():
            return {"type": "binary", "value": base64.b64encode(value).decode("ascii")}
        case str():
            return {"type": "string", "value": value}
        case None:
            return {"type": "string", "value": ""}
        case Mapping() | list():
            return {"type": "string", "value": json.dumps(json_value(value), ensure_ascii=False)}
