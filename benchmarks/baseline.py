"""Baseline of the comparison: a naive receiver with the same libraries and the same promise.

A synchronous gRPC server parses each request with the protobuf classes, makes a row of each span, inserts rows into
DuckDB through Arrow in batches of 8,192, and answers after the commit. It does not check for duplicates and keeps the
resource and the scope in each row, both of which save it work.
"""

from __future__ import annotations

import json
import queue
import signal
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import click
import duckdb
import grpc
import pyarrow as pa
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import (
    TraceServiceServicer,
    add_TraceServiceServicer_to_server,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

BATCH_SPANS: Final = 8_192
GATHER_S: Final = 0.1  # guess: how long the first request of a batch waits for others
WORKERS: Final = 64
MAX_REQUEST_BYTES: Final = 64 << 20

Row = tuple[object, ...]
Attributes = dict[str, object]

SCHEMA: Final = pa.schema(
    [
        ("trace_id", pa.string()),
        ("span_id", pa.string()),
        ("parent_span_id", pa.string()),
        ("trace_state", pa.string()),
        ("flags", pa.int64()),
        ("name", pa.string()),
        ("kind", pa.int32()),
        ("start_time", pa.timestamp("ns")),
        ("end_time", pa.timestamp("ns")),
        ("status_code", pa.int32()),
        ("status_message", pa.string()),
        ("attributes", pa.string()),
        ("events", pa.string()),
        ("links", pa.string()),
        ("service_name", pa.string()),
        ("resource_attributes", pa.string()),
        ("scope_name", pa.string()),
        ("scope_version", pa.string()),
    ],
)


def read_value(value: AnyValue) -> object:
    """Convert an OTLP value to JSON types."""
    match value.WhichOneof("value"):
        case "array_value":
            return [read_value(item) for item in value.array_value.values]
        case "kvlist_value":
            return read_attributes(value.kvlist_value.values)
        case "bytes_value":
            return value.bytes_value.hex()
        case None:
            return None
        case kind:
            return getattr(value, kind)


def read_attributes(pairs: Iterable[KeyValue]) -> Attributes:
    """Turn OTLP attributes into a dictionary."""
    return {pair.key: read_value(pair.value) for pair in pairs}


def rows_of(request: ExportTraceServiceRequest) -> Iterator[Row]:
    """Make a row of each span that has its ids."""
    for resource_spans in request.resource_spans:
        resource = read_attributes(resource_spans.resource.attributes)
        resource_text = json.dumps(resource)
        for scope_spans in resource_spans.scope_spans:
            scope = scope_spans.scope
            tail = (resource.get("service.name"), resource_text, scope.name, scope.version)
            for span in scope_spans.spans:
                if len(span.trace_id) == 16 and len(span.span_id) == 8:
                    yield _row(span) + tail


def _row(span: Span) -> Row:
    return (
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex() or None,
        span.trace_state,
        span.flags,
        span.name,
        span.kind,
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        span.status.code,
        span.status.message,
        json.dumps(read_attributes(span.attributes)),
        json.dumps([_event(event) for event in span.events]) if span.events else None,
        json.dumps([_link(link) for link in span.links]) if span.links else None,
    )


def _event(event: Span.Event) -> Attributes:
    attributes = read_attributes(event.attributes)
    return {"time": event.time_unix_nano, "name": event.name, "attributes": attributes}


def _link(link: Span.Link) -> Attributes:
    attributes = read_attributes(link.attributes)
    return {"traceId": link.trace_id.hex(), "spanId": link.span_id.hex(), "attributes": attributes}


@dataclass(frozen=True, slots=True)
class Write:
    """Rows of one request, and the future of their commit."""

    rows: list[Row]
    done: Future[None] = field(default_factory=Future)


class Writer:
    """The one thread that writes. It commits a batch while the next one gathers."""

    def __init__(self, path: Path) -> None:
        self._connection = duckdb.connect(str(path))
        self._connection.register("incoming", SCHEMA.empty_table())
        self._connection.execute("CREATE TABLE spans AS SELECT * FROM incoming")
        self._writes: queue.Queue[Write | None] = queue.Queue()
        self._thread = threading.Thread(target=self._write_all)
        self._thread.start()

    def append(self, rows: list[Row]) -> Future[None]:
        """Queue rows. The future completes once they are committed."""
        write = Write(rows)
        self._writes.put(write)
        return write.done

    def close(self) -> None:
        """Commit the queue and close the file."""
        self._writes.put(None)
        self._thread.join()
        self._connection.close()

    def _write_all(self) -> None:
        for batch in self._batches():
            try:
                self._commit([row for write in batch for row in write.rows])
            except duckdb.Error as error:
                for write in batch:
                    write.done.set_exception(error)
            else:
                for write in batch:
                    write.done.set_result(None)

    def _batches(self) -> Iterator[list[Write]]:
        while first := self._writes.get():
            batch, spans = [first], len(first.rows)
            full_s = time.monotonic() + GATHER_S
            while spans < BATCH_SPANS and (left_s := full_s - time.monotonic()) > 0:
                try:
                    write = self._writes.get(timeout=left_s)
                except queue.Empty:
                    break
                if write is None:
                    yield batch
                    return
                batch.append(write)
                spans += len(write.rows)
            yield batch

    def _commit(self, rows: list[Row]) -> None:
        columns = zip(*rows, strict=True)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
        self._connection.register("incoming", pa.Table.from_arrays(arrays, schema=SCHEMA))
        self._connection.execute("INSERT INTO spans SELECT * FROM incoming")


class Receiver(TraceServiceServicer):
    """The door."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def Export(  # noqa: N802 - gRPC names it
        self, request: ExportTraceServiceRequest, context: grpc.ServicerContext
    ) -> ExportTraceServiceResponse:
        """Store the spans of a request."""
        del context
        if rows := list(rows_of(request)):
            self._writer.append(rows).result()
        return ExportTraceServiceResponse()


@click.command()
@click.option("--data", type=click.Path(path_type=Path), required=True, help="Directory for the DuckDB file.")
def main(data: Path) -> None:
    """Serve until SIGTERM."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    data.mkdir(parents=True, exist_ok=True)
    writer = Writer(data / "baseline.duckdb")
    server = grpc.server(
        ThreadPoolExecutor(WORKERS),
        options=[("grpc.max_receive_message_length", MAX_REQUEST_BYTES)],
    )
    add_TraceServiceServicer_to_server(Receiver(writer), server)  # type: ignore[no-untyped-call]
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(json.dumps({"event": "ready", "grpc": f"127.0.0.1:{port}", "data": str(data)}), flush=True)
    signal.sigwait([signal.SIGTERM])
    server.stop(grace=10).wait()
    writer.close()


if __name__ == "__main__":
    main()
