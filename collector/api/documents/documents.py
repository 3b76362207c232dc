"""Records as the JSON documents that the HTTP API and `--json` show.

Every document is made of what JSON itself can carry: bytes are base64, NaN and the infinities are the
strings that OTLP/JSON uses, times are RFC 3339 in UTC with nine digits, and what is unknown is null.
"""

import base64
import datetime as dt
import decimal
import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from collector.api.base.times import time_text
from collector.api.documents.judgement_documents import judged_documents
from collector.api.documents.reading_documents import (
    Document,
    span_reading_document,
    sums_document,
    trace_reading_document,
)
from storage.judging.judgements import Judged
from storage.query.listing import Brief
from storage.records import Link, LogRecord, Span, SpanEvent, SpanReading, Table, Trace, TraceReading, TraceSummary

_KINDS = ("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")
_STATUSES = ("UNSET", "OK", "ERROR")


MAX_TRACE_BYTES: Final = 64 << 20
"""Characters of a trace's spans as JSON. A guess; one text may become six times as long as it was sent."""


def trace_document(trace: Trace, reading: TraceReading, judged: Judged, sums: Brief | None = None) -> Document:
    """Describe a trace: its summary, meaning and results of rules, and those of its spans by start time.

    Texts, tokens and cost are `sums` if these are of more spans than `trace` has, of which the answer is one.
    `truncated` if it has more spans than are shown, which are those that fit into `MAX_TRACE_BYTES`;
    `judgementsTruncated` if the rules made more of it.
    """
    judgements = judged_documents(judged)
    spans = sorted(trace.spans, key=lambda span: span.start_ns)
    logs: dict[str, list[LogRecord]] = defaultdict(list)
    for record in trace.logs:
        logs[record.span_id].append(record)
    document: Document = {
        **summary_document(trace.summary),
        **json_fields(trace_reading_document(reading)),
        **json_fields(judgements[None]),
        "summedSpanCount": len(spans),
    }
    if sums is not None and (sums.summed_span_count or 0) > len(spans):
        document |= json_fields(sums_document(sums))
    document["spans"] = shown = []
    room = MAX_TRACE_BYTES
    for span in spans:
        one = span_document(span, reading.spans[span.span_id], logs[span.span_id])
        one |= json_fields(judgements[span.span_id])
        room -= len(json.dumps(one, ensure_ascii=False))
        if room < 0:
            break
        shown.append(one)
    cut = {"truncated": len(shown) < trace.summary.span_count, "judgementsTruncated": not judged.whole}
    return document | {name: True for name, is_cut in cut.items() if is_cut}


def summary_document(summary: TraceSummary) -> Document:
    """A trace without its spans."""
    return {
        "traceId": summary.trace_id,
        "tenant": summary.tenant,
        "project": summary.project,
        "serviceName": summary.service_name,
        "rootSpanName": summary.root_name,
        **_times(summary.start_ns, summary.end_ns),
        "spanCount": summary.span_count,
        "errorCount": summary.error_count,
        "expiresAt": time_text(summary.expires_at_ns),
    }


def span_document(span: Span, reading: SpanReading, logs: Sequence[LogRecord]) -> Document:
    """One span, with what it means and the log records that belong to it."""
    return {
        "spanId": span.span_id,
        "parentSpanId": span.parent_span_id,
        "name": span.name,
        "kind": _name(_KINDS, span.kind),
        **_times(span.start_ns, span.end_ns),
        "statusCode": _name(_STATUSES, span.status_code),
        "statusMessage": span.status_message,
        **json_fields(span_reading_document(reading)),
        "attributes": json_value(span.attributes),
        "events": [_event(event) for event in span.events],
        "links": [_link(link) for link in span.links],
        "logs": [_log(record) for record in logs],
        "traceState": span.trace_state,
        "flags": span.flags,
        "droppedAttributesCount": span.dropped_attributes_count,
        "droppedEventsCount": span.dropped_events_count,
        "droppedLinksCount": span.dropped_links_count,
        "resource": {
            "attributes": json_value(span.resource.attributes),
            "schemaUrl": span.resource.schema_url,
        },
        "scope": {
            "name": span.scope.name,
            "version": span.scope.version,
            "attributes": json_value(span.scope.attributes),
            "schemaUrl": span.scope.schema_url,
        },
        "project": span.project,
        "serviceName": span.service_name,
    }


def table_document(table: Table) -> Document:
    """The answer to a query, row by row."""
    return {
        "columns": [{"name": column.name, "type": column.type} for column in table.columns],
        "rows": [[json_value(value) for value in row] for row in table.rows],
        "truncated": table.truncated,
    }


def json_fields(document: Document) -> Document:
    """A document of which every field is what JSON can carry."""
    return {name: json_value(value) for name, value in document.items()}


def json_value(value: object) -> object:
    """Any attribute value, and any value that DuckDB answers with, as what JSON can carry.

    Decimals become numbers where a double holds them exactly as written, else strings.
    """
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return _number(value)
        case decimal.Decimal():
            return _number(float(value)) if decimal.Decimal(repr(float(value))) == value else str(value)
        case bytes() | bytearray() | memoryview():
            return base64.b64encode(value).decode("ascii")
        case Mapping():
            return {_key(key): json_value(item) for key, item in value.items()}
        case dt.datetime():
            return _datetime(value)
        case dt.date() | dt.time():
            return value.isoformat()
        case Sequence() | set() | frozenset():
            return [json_value(item) for item in value]
        case _:
            return str(value)


def _number(value: float) -> float | str:
    if math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _datetime(value: dt.datetime) -> str:
    """DuckDB's TIMESTAMP has no zone and means UTC here."""
    utc = value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value.astimezone(dt.UTC)
    return f"{utc:%Y-%m-%dT%H:%M:%S}.{utc.microsecond:06}000Z"


def _key(key: object) -> str:
    return key if isinstance(key, str) else str(json_value(key))


def _times(start_ns: int, end_ns: int | None) -> Document:
    known = start_ns and end_ns
    return {
        "startTime": time_text(start_ns),
        "endTime": time_text(end_ns),
        "durationMs": (end_ns - start_ns) / 1e6 if known and end_ns is not None else None,
    }


def _name(names: Sequence[str], number: int) -> str:
    """The name of an OTLP enum's number; numbers that this version does not know read as 0."""
    return names[number] if 0 <= number < len(names) else names[0]


def _event(event: SpanEvent) -> Document:
    return {"time": time_text(event.time_ns), "name": event.name, "attributes": json_value(event.attributes)}


def _log(record: LogRecord) -> Document:
    return {
        "time": time_text(record.time_ns),
        "eventName": record.event_name,
        "body": json_value(record.body),
        "attributes": json_value(record.attributes),
    }


def _link(link: Link) -> Document:
    return {
        "traceId": link.trace_id,
        "spanId": link.span_id,
        "traceState": link.trace_state,
        "attributes": json_value(link.attributes),
        "flags": link.flags,
    }
