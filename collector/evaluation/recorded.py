"""Recorded traces from files: OTLP/JSON as exporters send it, or spans as the SDK's console exporter prints them."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from collector.conventions.names import project_of, service_of
from collector.conventions.own_keys import OwnKeys
from collector.conventions.trace import read_trace
from collector.evaluation.trace_case import case_of_trace
from collector.otlp import json_request
from collector.otlp.decode import Request, decode
from collector.otlp.faults import Malformed
from evaluators.model import Case
from storage.ingest.dimensions import spelled_out
from storage.ingest.known_times import with_known_times
from storage.query.rows import spans_of
from storage.records import Resource, Scope, Span, SpanEvent

ITEM_ATTRIBUTE: Final = "tracejury.item"
"""Attribute of a resource or span that names the eval set item that the trace belongs to."""

_KINDS: Final = ("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")
_STATUSES: Final = ("UNSET", "OK", "ERROR")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class UnreadableTraces(Exception):
    """Refusal of a file without traces; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSpans:
    """The spans of a run, by start time."""

    spans: tuple[Span, ...]

    @property
    def items(self) -> set[str]:
        """Return the eval set items that the run names."""
        named = (attributes.get(ITEM_ATTRIBUTE) for span in self.spans for attributes in _both(span))
        return {item for item in named if isinstance(item, str)}

    @property
    def trace_id(self) -> str | None:
        """Return the trace id, or that of the first of several traces."""
        return self.spans[0].trace_id if self.spans else None

    def case(self) -> Case:
        """Return the run as a test case."""
        return case_of_trace(read_trace(self.spans, [], OwnKeys()), self.spans)


def recordings_in(file: Path) -> list[RecordedSpans]:
    """Read the traces of a file, each by itself.

    Raises:
        UnreadableTraces: the file cannot be read, or holds no trace.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableTraces(f"{file} cannot be read: {error}") from error
    try:
        spans = [span for document in _documents(text) for span in _spans(document)]
    except (ValueError, Malformed) as error:
        raise UnreadableTraces(f"{file}: {error}") from error
    if not spans:
        raise UnreadableTraces(f"{file}: holds no span")
    return by_trace(spans)


def recording_of(document: Mapping[str, Any]) -> RecordedSpans:
    """Read the run of one OTLP/JSON export request.

    Raises:
        Malformed: the document is not an export request.
        ValueError: a span was rejected.
    """
    return _recording(_of_request(document))


def by_trace(spans: Iterable[Span]) -> list[RecordedSpans]:
    """Group spans by trace."""
    traces: dict[str, list[Span]] = {}
    for span in spans:
        traces.setdefault(span.trace_id, []).append(span)
    return [_recording(spans_of_trace) for spans_of_trace in traces.values()]


def merged(recordings: Sequence[RecordedSpans]) -> RecordedSpans:
    """Merge several traces into one run."""
    return _recording([span for recording in recordings for span in recording.spans])


def _recording(spans: Iterable[Span]) -> RecordedSpans:
    return RecordedSpans(spans=tuple(sorted(spans, key=lambda span: span.start_ns)))


def _documents(text: str) -> Iterator[object]:
    """Yield the JSON document of a file, its items if it is a list, or one document per line."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        for number, line in enumerate(text.split("\n"), start=1):
            if line.strip():
                yield _line(line, number)
        return
    yield from document if isinstance(document, list) else [document]


def _line(line: str, number: int) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"line {number} is not JSON: {error}") from None


def _spans(document: object) -> list[Span]:
    if not isinstance(document, dict):
        document = {}
    if "context" in document and "attributes" in document:
        return [_of_console(document)]
    if "resourceSpans" in document or "resource_spans" in document:
        return _of_request(document)
    raise ValueError('neither an OTLP request ("resourceSpans") nor a span of the console exporter ("context")')


def _of_request(document: Mapping[str, Any]) -> list[Span]:
    body = json_request.to_protobuf(json.dumps(document).encode())
    decoded = decode([Request(body=body)], received_at_us=0)
    for outcome in decoded.outcomes:
        if isinstance(outcome, Exception):
            raise outcome
        if outcome.rejected:
            raise ValueError(outcome.message)
    batch = decoded.batch
    return spans_of(spelled_out(with_known_times(batch.spans), batch))


def _of_console(document: Mapping[str, Any]) -> Span:
    """Parse a span as `ConsoleSpanExporter` of the Python SDK prints it."""
    context, resource = document["context"], document.get("resource") or {}
    status = document.get("status") or {}
    try:
        attributes = dict(resource.get("attributes") or {})
        start_ns, end_ns = _nanoseconds(document.get("start_time")) or 0, _nanoseconds(document.get("end_time"))
        return Span(
            tenant="",
            trace_id=_hex(context["trace_id"], 32),
            span_id=_hex(context["span_id"], 16),
            parent_span_id=_hex(document["parent_id"], 16) if document.get("parent_id") else None,
            name=str(document["name"]),
            kind=_number(_KINDS, document.get("kind")),
            start_ns=start_ns,
            end_ns=end_ns if end_ns is not None and end_ns >= start_ns else None,
            status_code=_number(_STATUSES, status.get("status_code")),
            status_message=str(status.get("description") or ""),
            attributes=dict(document["attributes"] or {}),
            events=tuple(_event(event) for event in document.get("events") or ()),
            links=(),
            trace_state="",
            flags=0,
            dropped_attributes_count=0,
            dropped_events_count=0,
            dropped_links_count=0,
            resource=Resource(
                attributes=attributes,
                dropped_attributes_count=0,
                schema_url=str(resource.get("schema_url") or ""),
                entity_refs=(),
            ),
            scope=Scope(name="", version="", attributes={}, dropped_attributes_count=0, schema_url=""),
            project=project_of(attributes),
            service_name=service_of(attributes),
            sent_times=(),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a span of the console exporter: {type(error).__name__}: {error}") from None


def _event(event: Mapping[str, Any]) -> SpanEvent:
    return SpanEvent(
        time_ns=_nanoseconds(event.get("timestamp")) or 0,
        name=str(event["name"]),
        attributes=dict(event.get("attributes") or {}),
        dropped_attributes_count=0,
    )


def _hex(number: str, digits: int) -> str:
    return f"{int(number, 16):0{digits}x}"


def _number(names: Sequence[str], text: object) -> int:
    name = str(text).rpartition(".")[2].upper()
    return names.index(name) if name in names else 0


def _nanoseconds(text: str | None) -> int | None:
    if not text:
        return None
    instant = datetime.fromisoformat(text)
    since = (instant if instant.tzinfo else instant.replace(tzinfo=UTC)) - _EPOCH
    return since // timedelta(microseconds=1) * 1000


def _both(span: Span) -> tuple[Mapping[str, object], Mapping[str, object]]:
    return span.attributes, span.resource.attributes
