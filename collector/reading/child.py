"""The reading process: spans in, readings out, until its input ends."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO

import pyarrow as pa

from collector.children import inside
from collector.children.wire import receive, send
from collector.conventions.own import OwnKeys
from collector.conventions.span import read_span
from collector.conventions.trace import read_trace
from collector.reading.unreadable import unreadable_span, unreadable_trace
from storage.reading_batch import ReadingBatch, reading_batch
from storage.records import AttributeValue, LogRecord, Span, SpanReading, TraceReading
from storage.rows import logs_of, resources_of, scopes_of, spans_of

_Reading = tuple[int, Mapping[str, AttributeValue], SpanReading]


def main() -> None:
    """Answer requests on standard input until it ends."""
    inside.run(serve)


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until there are no more; the first says which keys are the operator's own."""
    first = receive(requests)
    if first is None:
        return
    own = OwnKeys(first[0]["own"])
    while (request := receive(requests)) is not None:
        header, tables = request
        whole = {(tenant, trace_id) for tenant, trace_id in header["whole"]}
        batch = read(tables, whole, own, only_logged=header["which"] == "logged")
        send(answers, {}, [batch.readings, batch.tool_calls, batch.traces])


def read(tables: Sequence[pa.Table], whole: set[tuple[str, str]], own: OwnKeys, *, only_logged: bool) -> ReadingBatch:
    """Read spans of a window (spans, resources, scopes, logs), all, or those with logs; add up traces in `whole`."""
    rows, resources, scopes, log_rows = tables
    spans = spans_of(rows, resources_of(resources), scopes_of(scopes))
    traces: dict[tuple[str, str], list[tuple[int, Span]]] = defaultdict(list)
    for seq, span in zip(rows.column("seq").to_pylist(), spans, strict=True):
        traces[span.tenant, span.trace_id].append((seq, span))
    logs: dict[tuple[str, str], list[LogRecord]] = defaultdict(list)
    for record in logs_of(log_rows):
        logs[record.tenant, record.trace_id].append(record)
    readings: list[_Reading] = []
    added_up: list[tuple[list[Span], TraceReading]] = []
    for key, numbered in traces.items():
        if key in whole:
            trace = _read_trace([span for _, span in numbered], logs[key], own)
            added_up.append(([span for _, span in numbered], trace))
            readings += [(seq, span.attributes, trace.spans[span.span_id]) for seq, span in numbered]
        else:
            readings += _read_spans(numbered, logs[key], own)
    if only_logged:
        numbers = {seq for key, numbered in traces.items() for seq in _logged(numbered, logs[key])}
        readings = [one for one in readings if one[0] in numbers]
    return reading_batch(readings, added_up)


def _logged(numbered: Sequence[tuple[int, Span]], logs: Sequence[LogRecord]) -> list[int]:
    """The numbers of the spans that log records belong to."""
    span_ids = {record.span_id for record in logs}
    return [seq for seq, span in numbered if span.span_id in span_ids]


def _read_trace(spans: list[Span], logs: list[LogRecord], own: OwnKeys) -> TraceReading:
    try:
        return read_trace(spans, logs, own)
    except Exception as error:  # noqa: BLE001 - one trace that cannot be read must not hide all others
        return unreadable_trace(spans, error)


def _read_spans(numbered: Sequence[tuple[int, Span]], logs: Sequence[LogRecord], own: OwnKeys) -> Iterator[_Reading]:
    of_span: dict[str, list[LogRecord]] = defaultdict(list)
    for record in logs:
        of_span[record.span_id].append(record)
    for seq, span in numbered:
        try:
            yield seq, span.attributes, read_span(span, of_span[span.span_id], own)
        except Exception as error:  # noqa: BLE001 - likewise one span
            yield seq, span.attributes, unreadable_span(error)
