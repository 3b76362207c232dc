"""Spans on their way to a server: batches of unique ones, the two doors as functions, and load from many threads."""

import functools
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Literal, Self, TypeVar

import grpc
import httpx
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from tests.live import PATIENCE_S, Live, a_client
from tests.serving import PROTOBUF

M = TypeVar("M", bound=Message)

EXPORT = "/opentelemetry.proto.collector.{signal}.v1.{service}/Export"
EXPORT_TRACES = EXPORT.format(signal="trace", service="TraceService")
EXPORT_LOGS = EXPORT.format(signal="logs", service="LogsService")

_RETRYABLE_HTTP = {429, 502, 503, 504}


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """An export request and the spans, or the log records, in it."""

    body: bytes
    span_ids: tuple[str, ...]  # lower-case hex; for log records their texts, which are as unique
    trace_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The outcome that a sender learns: taken, later, or nothing, as when the server dies."""

    kind: Literal["taken", "later", "lost"]
    rejected: int = 0
    retry_after_s: float | None = None
    message: str = ""


Send = Callable[[bytes], Answer]


def a_batch(source: random.Random, spans: int, *, start_ns: int | None = None, text: str = "what is asked") -> Batch:
    """Return one trace of new spans that start about now, the first of them the root of the others."""
    trace_id = source.randbytes(16)
    span_ids = [source.randbytes(8) for _ in range(spans)]
    request = ExportTraceServiceRequest()
    resource_spans = request.resource_spans.add()
    resource_spans.resource.attributes.add(key="service.name").value.string_value = "load"
    added = resource_spans.scope_spans.add().spans
    now = time.time_ns() if start_ns is None else start_ns
    for number, span_id in enumerate(span_ids):
        span = added.add(
            trace_id=trace_id,
            span_id=span_id,
            parent_span_id=span_ids[0] if number else b"",
            name=f"step {number}",
            start_time_unix_nano=now + number,
            end_time_unix_nano=now + 1_000_000,
        )
        span.attributes.add(key="input.value").value.string_value = text
    return Batch(
        body=request.SerializeToString(),
        span_ids=tuple(span_id.hex() for span_id in span_ids),
        trace_id=trace_id.hex(),
    )


def a_log_batch(source: random.Random, records: int, *, text: str = "what is asked") -> Batch:
    """Log records of one new span, each with a body that no other has."""
    trace_id, span_id = source.randbytes(16), source.randbytes(8)
    texts = [f"{source.randbytes(8).hex()} {text}" for _ in range(records)]
    request = ExportLogsServiceRequest()
    resource_logs = request.resource_logs.add()
    resource_logs.resource.attributes.add(key="service.name").value.string_value = "load"
    added = resource_logs.scope_logs.add().log_records
    now = time.time_ns()
    for number, words in enumerate(texts):
        record = added.add(trace_id=trace_id, span_id=span_id, observed_time_unix_nano=now + number)
        record.event_name = "gen_ai.user.message"
        record.body.string_value = words
    return Batch(body=request.SerializeToString(), span_ids=tuple(texts), trace_id=trace_id.hex())


def joined(*batches: Batch) -> bytes:
    """Return one request with the spans of all: protobuf messages merge by concatenation."""
    return b"".join(batch.body for batch in batches)


@contextmanager
def over_http(server: Live, *, path: str = "/v1/traces") -> Iterator[Send]:
    """Send over OTLP/HTTP, on one connection."""
    with a_client() as client:

        def send(body: bytes) -> Answer:
            try:
                reply = client.post(f"{server.otlp_http}{path}", content=body, headers={"content-type": PROTOBUF})
            except httpx.TransportError as error:
                return Answer(kind="lost", message=repr(error))
            if reply.status_code in _RETRYABLE_HTTP:
                return Answer(
                    kind="later",
                    retry_after_s=float(reply.headers["retry-after"]),
                    message=Status.FromString(reply.content).message,
                )
            assert reply.status_code == httpx.codes.OK, (reply.status_code, reply.content)
            return _taken(reply.content)

        yield send


@contextmanager
def over_grpc(server: Live, *, method: str = EXPORT_TRACES) -> Iterator[Send]:
    """Send over OTLP/gRPC, on one connection."""
    with grpc.insecure_channel(server.grpc) as channel:
        call = export_on(channel, method)

        def send(body: bytes) -> Answer:
            try:
                return _taken(call(body, timeout=PATIENCE_S))
            except grpc.RpcError as error:
                return _refusal(error)

        yield send


def export_on(channel: grpc.Channel, method: str = EXPORT_TRACES) -> "grpc.UnaryUnaryMultiCallable[bytes, bytes]":
    """Return the call that exports, bytes in and bytes out."""
    call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(method)
    return call


def _taken(reply: bytes) -> Answer:
    outcome = ExportTraceServiceResponse.FromString(reply).partial_success
    return Answer(kind="taken", rejected=outcome.rejected_spans, message=outcome.error_message)


def _refusal(error: grpc.RpcError) -> Answer:
    status = status_of(error)
    if status is None:  # not the server's own words: the connection broke
        assert error.code() in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}, error
        return Answer(kind="lost", message=str(error.details()))
    delay = detail(status, RetryInfo())
    assert error.code() is grpc.StatusCode.UNAVAILABLE, status
    return Answer(kind="later", retry_after_s=delay.retry_delay.seconds, message=status.message)


def status_of(error: grpc.RpcError) -> Status | None:
    """Return the `google.rpc.Status` in the trailing metadata of a failed call, or None when it has none."""
    for item in error.trailing_metadata() or ():
        if item.key == "grpc-status-details-bin":
            return Status.FromString(item.value)
    return None


def detail(status: Status, kind: M) -> M:
    """Return the detail of this kind, of which there is exactly one."""
    details = [each.value for each in status.details if each.type_url.endswith(f"/{kind.DESCRIPTOR.full_name}")]
    assert len(details) == 1, status
    kind.ParseFromString(details[0])
    return kind


Door = Callable[[Live], AbstractContextManager[Send]]
DOORS: dict[str, Door] = {"gRPC": over_grpc, "HTTP": over_http}
LOG_DOORS: dict[str, Door] = {
    "gRPC": functools.partial(over_grpc, method=EXPORT_LOGS),
    "HTTP": functools.partial(over_http, path="/v1/logs"),
}


@dataclass(slots=True)
class Sent:
    """The spans of a load, by outcome. Counts are of spans, or of log records."""

    acknowledged: list[str] = field(default_factory=list)  # span ids
    counts: Counter[str] = field(default_factory=Counter)  # taken, rejected, later, lost
    reasons: Counter[str] = field(default_factory=Counter)  # messages of refusals and losses
    without_delay: int = 0  # refusals that did not say when to come back

    def add(self, batch: Batch, answer: Answer) -> None:
        """Count one request. List and counter are only ever added to under the load's lock."""
        spans = len(batch.span_ids)
        if answer.kind == "taken":
            self.acknowledged += batch.span_ids
            self.counts["rejected"] += answer.rejected
            spans -= answer.rejected
        else:
            self.reasons[answer.message] += 1
            self.without_delay += answer.kind == "later" and not answer.retry_after_s
        self.counts[answer.kind] += spans


class Load:
    """Threads that send one batch after the other, over both protocols, from entering the block to its end.

    A thread whose connection breaks goes on trying, as the server may come back.
    """

    def __init__(
        self,
        server: Live,
        seed: int,
        *,
        senders: int = 4,
        spans: int = 10,
        text: str = "asked",
        logs: bool = False,
    ) -> None:
        self.sent = Sent()
        self._server = server
        self._spans = spans
        self._text = text
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._failures: list[BaseException] = []
        self._make = a_log_batch if logs else a_batch
        doors = list(LOG_DOORS.values() if logs else DOORS.values())
        self._threads = [
            threading.Thread(target=self._run, args=(doors[number % len(doors)], random.Random(f"{seed}/{number}")))
            for number in range(senders)
        ]

    def _run(self, door: Door, source: random.Random) -> None:
        try:
            with door(self._server) as send:
                while not self._stop.is_set():
                    batch = self._make(source, self._spans, text=self._text)
                    answer = send(batch.body)
                    with self._lock:
                        self.sent.add(batch, answer)
                    if answer.kind != "taken":
                        self._stop.wait(0.02)
        except BaseException as error:
            self._failures.append(error)
            raise

    def stop(self) -> Sent:
        """Send no more; what became of all."""
        self._stop.set()
        for thread in self._threads:
            thread.join(2 * PATIENCE_S)
        assert not self._failures, self._failures
        return self.sent

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(2 * PATIENCE_S)
