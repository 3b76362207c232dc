"""A real store in a temporary directory, and the short ways to fill it that tests need."""

import resource
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.conventions.own_keys import NO_KEYS
from collector.otlp.decode import Decoded, Request, decode
from collector.reading.spans import ConventionsReader
from storage.ingest.batch import SpanBatch
from storage.ingest.writer import WriterOptions
from storage.store import Store, StoreOptions
from tests.prepared import prepare

RECEIVED_AT_US = 1_795_255_200_000_000  # 2026-11-21T10:00:00Z
START_NS = RECEIVED_AT_US * 1000
WAIT_S = 60.0


@contextmanager
def a_store(
    directory: Path, *, commit_interval_s: float = 0.001, backlog_bytes: int = 64 << 20, lake: str | None = None
) -> Iterator[Store]:
    """Open a store that reads what spans mean, and commits at once by default."""
    prepare(directory)
    writer = WriterOptions(commit_interval_s=commit_interval_s, reads=ConventionsReader(NO_KEYS))
    with Store.open(directory, StoreOptions(writer=writer, backlog_bytes=backlog_bytes, lake=lake)) as store:
        yield store


def trace_id(number: int) -> str:
    """Return a valid trace id."""
    return f"{number + 1:032x}"


def span_id(number: int) -> str:
    """Return a valid span id."""
    return f"{number + 1:016x}"


def an_export(
    spans: int = 1, *, trace: int = 0, first: int = 0, start_ns: int = START_NS, project: str = "shop"
) -> ExportTraceServiceRequest:
    """Build a request with consecutive root spans of one trace, a nanosecond apart."""
    request = ExportTraceServiceRequest()
    resource_spans = request.resource_spans.add()
    resource_spans.resource.attributes.add(key="service.name").value.string_value = project
    scope_spans = resource_spans.scope_spans.add()
    for number in range(first, first + spans):
        scope_spans.spans.add(
            trace_id=bytes.fromhex(trace_id(trace)),
            span_id=bytes.fromhex(span_id(number)),
            name=f"span {number}",
            start_time_unix_nano=start_ns + number,
            end_time_unix_nano=start_ns + number + 1_000_000,
        )
    return request


def decoded(*exports: ExportTraceServiceRequest, tenant: str = "") -> Decoded:
    """Return the requests as one decoded group."""
    requests = [Request(body=export.SerializeToString(), tenant=tenant) for export in exports]
    return decode(requests, received_at_us=RECEIVED_AT_US)


def a_batch(*exports: ExportTraceServiceRequest, tenant: str = "") -> SpanBatch:
    """Return the requests as one batch."""
    return decoded(*exports, tenant=tenant).batch


def commit(store: Store, *batches: SpanBatch) -> None:
    """Append the batches and wait until they are committed."""
    store.append(list(batches))
    assert store.wait_committed(WAIT_S)


def rows(store: Store, statement: str) -> list[tuple[object, ...]]:
    """Run an SQL query; return the rows."""
    return list(store.queries.sql(statement, max_rows=1_000_000, timeout_s=60).rows)


@contextmanager
def files_no_larger_than(nbytes: int) -> Iterator[None]:
    """Fail writes that grow any file of this process beyond a size, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def a_record(sequence: int, batch: SpanBatch) -> bytes:
    """Build a whole record, as another version may have written it."""
    body = b"".join(bytes(memoryview(part)) for part in batch.to_buffers())
    numbers = struct.pack("<QQ", len(body), sequence)
    return b"TJsp" + struct.pack("<I", zlib.crc32(numbers + body)) + numbers + body
