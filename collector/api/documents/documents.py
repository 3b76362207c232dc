"""Traces, spans and rows of SQL as the documents that the HTTP API and `--json` show.

Bytes are base64, NaN and the infinities are the strings that OTLP/JSON uses, times are RFC 3339 in UTC with nine
digits, and unknown values are null.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from collector.api.documents.judgement_documents import judged_by_span
from collector.api.responses.base import json_value
from collector.api.responses.traces import LogDocument, SpanDocument, TraceDocument
from storage.judging.judgements import TraceResults
from storage.query.listing import TraceDetails
from storage.records import LogRecord, Span, SpanReading, Table, Trace, TraceReading

MAX_TRACE_BYTES: Final = 64 << 20
"""Maximum size of a trace's spans as JSON. A guess; escapes can make a text six times as long as it was sent."""


def trace_document(
    trace: Trace, reading: TraceReading, judged: TraceResults, sums: TraceDetails | None = None
) -> TraceDocument:
    """Describe a trace: its summary, meaning and results of rules, and those of its spans by start time.

    Texts, tokens and cost come from `sums` if it covers more spans than `trace` has. `truncated` is set if the trace
    has more spans than fit into `MAX_TRACE_BYTES` of JSON. `judgementsTruncated` is set if the
    trace has more results of rules than `judged`. The spans are already encoded as JSON.
    """
    by_span = judged_by_span(judged)
    logs: dict[str, list[LogRecord]] = defaultdict(list)
    for record in trace.logs:
        logs[record.span_id].append(record)
    spans, room = [], MAX_TRACE_BYTES
    for span in sorted(trace.spans, key=lambda span: span.start_ns):
        document = span_document(span, reading.spans[span.span_id], logs[span.span_id], by_span[span.span_id])
        encoded = msgspec.json.encode(document)
        room -= len(encoded)
        if room < 0:
            break
        spans.append(msgspec.Raw(encoded))
    summed_span_count = len(trace.spans) if sums is None else sums.summed_span_count or 0
    return TraceDocument.of(
        trace.summary,
        *([sums] if sums is not None and summed_span_count > len(trace.spans) else []),
        reading,
        by_span[None],
        session_id=reading.session_id,
        user_id=reading.user_id,
        spans=spans,
        summed_span_count=max(summed_span_count, len(trace.spans)),
        truncated=len(spans) < trace.summary.span_count or msgspec.UNSET,
        judgements_truncated=not judged.whole or msgspec.UNSET,
    )


def span_document(
    span: Span, reading: SpanReading, logs: Sequence[LogRecord], judged: Mapping[str, list[Any]]
) -> SpanDocument:
    """Describe a span with its meaning, the log records that belong to it, and the results of rules."""
    return SpanDocument.of(span, reading, judged, logs=list(map(LogDocument.of, logs)))


def table_document(table: Table) -> dict[str, object]:
    """Describe the rows of an SQL query."""
    return {
        "columns": [{"name": column.name, "type": column.type} for column in table.columns],
        "rows": [[json_value(value) for value in row] for row in table.rows],
        "truncated": table.truncated,
    }
