"""A small sample of agent traces, sent as an application would: through the OpenTelemetry SDK and its exporters."""

import hashlib
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Final

import requests
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import Status, StatusCode, Tracer, set_span_in_context

from collector.sample_agents import DOCUMENTS, SUPPORT, TRAVEL, SampleApplication, SampleSpan, agent_step, tool_step

PROJECT = "sample"

_EXPORT_TIMEOUT_S = 5
_NS_PER_MS = 1_000_000


class SampleNotSent(Exception):
    """Failure to send the sample; the message names the listener."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleTrace:
    """One trace that was sent."""

    trace_id: str
    service_name: str
    about: str
    spans: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleReport:
    """The spans that the server took, by listener."""

    traces: tuple[SampleTrace, ...]
    grpc: str
    grpc_spans: int
    otlp_http: str
    otlp_http_spans: int

    @property
    def trace_ids(self) -> tuple[str, ...]:
        """Return the ids of the traces in the order in which they were sent."""
        return tuple(trace.trace_id for trace in self.traces)


def send_sample(*, grpc: str, otlp_http: str, key: str | None = None) -> SampleReport:
    """Send the sample to the two OTLP listeners, given as `host:port`, with an API key if they need one.

    Raises:
        SampleNotSent: a listener did not take all of its spans.
    """
    now_ns = time.time_ns()
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    with (
        closing(WatchedExporter(grpc_exporter(grpc, headers), f"gRPC to {grpc}")) as over_grpc,
        closing(WatchedExporter(_http_exporter(otlp_http, headers), f"HTTP to {otlp_http}")) as over_http,
    ):
        traces = (
            send_trace(SUPPORT, over_grpc, now_ns - 60_000 * _NS_PER_MS),
            send_trace(DOCUMENTS, over_http, now_ns - 40_000 * _NS_PER_MS),
            send_trace(TRAVEL, over_grpc, now_ns - 20_000 * _NS_PER_MS),
        )
    return SampleReport(
        traces=traces,
        grpc=grpc,
        grpc_spans=over_grpc.taken,
        otlp_http=otlp_http,
        otlp_http_spans=over_http.taken,
    )


def describe(report: SampleReport, *, http: str, options: str = "", command: str = "tracejury") -> str:
    """Describe what arrived and where to look; `options` are those that the commands need to find the server."""
    failed = report.traces[-1]
    look = (
        f"{command} traces list",
        f"{command} traces show {failed.trace_id}",
        f"{command} rules list",
        f'{command} sql "{_QUESTION}"',
    )
    lines = [
        f"Sample received: {report.grpc_spans} spans over gRPC, {report.otlp_http_spans} over HTTP, in these traces:",
        *(f"  {trace.trace_id}  {trace.service_name:<14}  {trace.about}" for trace in report.traces),
        f"Look at them: http://{http}",
        *(f"  {line} {options}".rstrip() for line in look),
        f"  curl 'http://{http}/api/v1/traces?project={PROJECT}'",
        "Send your own: start an application that uses the OpenTelemetry SDK with",
        f"  OTEL_EXPORTER_OTLP_ENDPOINT=http://{report.grpc} OTEL_EXPORTER_OTLP_PROTOCOL=grpc",
        f"  OTEL_EXPORTER_OTLP_ENDPOINT=http://{report.otlp_http} OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
    ]
    return "\n".join(lines)


_QUESTION = "SELECT name, count(*) AS n, avg(duration_ms) AS avg_ms FROM spans GROUP BY name ORDER BY avg_ms DESC"


class WatchedExporter(SpanExporter):
    """Exporter that counts the spans that the listener took, since the batch processor would only log a failure."""

    def __init__(self, exporter: SpanExporter, door: str) -> None:
        self._exporter = exporter
        self._door = door
        self.taken = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send spans, and count those that the listener took."""
        result = self._exporter.export(spans)
        if result is SpanExportResult.SUCCESS:
            self.taken += len(spans)
        return result

    def shutdown(self) -> None:
        """Do nothing: several providers share this exporter, and `close` ends it."""

    def close(self) -> None:
        """Close the connection."""
        self._exporter.shutdown()

    def expect(self, taken: int) -> None:
        """Raise `SampleNotSent` if fewer spans were taken."""
        if self.taken < taken:
            missing = taken - self.taken
            raise SampleNotSent(f"{missing} of the sample's spans were not taken over {self._door}")


def grpc_exporter(address: str, headers: dict[str, str]) -> SpanExporter:
    """Make the exporter to the gRPC listener."""
    no_proxy = (("grpc.enable_http_proxy", 0),)
    return GrpcExporter(
        endpoint=f"http://{address}",
        insecure=True,
        headers=headers,
        timeout=_EXPORT_TIMEOUT_S,
        channel_options=no_proxy,  # type: ignore[arg-type] # gRPC takes numbers, and more than one option
    )


def _http_exporter(address: str, headers: dict[str, str]) -> SpanExporter:
    session = requests.Session()
    session.trust_env = False  # the server is on this machine: use no proxy
    endpoint = f"http://{address}/v1/traces"
    return HttpExporter(endpoint=endpoint, headers=headers, timeout=_EXPORT_TIMEOUT_S, session=session)


def send_trace(application: SampleApplication, exporter: WatchedExporter, start_ns: int) -> SampleTrace:
    """Send one trace that starts at `start_ns`.

    Raises:
        SampleNotSent: the listener did not take all spans of the trace.
    """
    resource = {
        "service.name": application.service_name,
        "service.version": application.version,
        "deployment.environment.name": "production",
        "telemetry.sdk.language": "python",
        "dokimos.project": PROJECT,
    }
    ids = _Ids(application.trace_id)
    provider = TracerProvider(sampler=ALWAYS_ON, resource=Resource(resource), shutdown_on_exit=False, id_generator=ids)
    provider.add_span_processor(BatchSpanProcessor(exporter, max_queue_size=512, max_export_batch_size=512))
    tracer = provider.get_tracer(application.scope, application.scope_version)
    before = exporter.taken
    trace_id = _play(tracer, application.root, start_ns, Context())
    provider.shutdown()
    spans = _count(application.root)
    exporter.expect(before + spans)
    return SampleTrace(trace_id=trace_id, service_name=application.service_name, about=application.about, spans=spans)


class _Ids(IdGenerator):
    """Ids of one trace, the same in each run of the sample, so that spans that are sent again are stored once."""

    def __init__(self, trace_id: str) -> None:
        self._trace_id = trace_id
        self._spans = 0

    def generate_trace_id(self) -> int:
        """Return the id of the trace."""
        return int(self._trace_id, 16)

    def generate_span_id(self) -> int:
        """Return the next span id of the trace."""
        self._spans += 1
        return int.from_bytes(hashlib.sha256(f"{self._trace_id}/{self._spans}".encode()).digest()[:8])


def _play(tracer: Tracer, step: SampleSpan, start_ns: int, parent: Context) -> str:
    """Record a step and those inside it; returns the trace id."""
    span = tracer.start_span(
        step.name,
        context=parent,
        kind=step.kind,
        attributes=step.attributes,
        start_time=start_ns + step.from_ms * _NS_PER_MS,
    )
    for inner in step.steps:
        _play(tracer, inner, start_ns, set_span_in_context(span, parent))
    end_ns = start_ns + step.to_ms * _NS_PER_MS
    if step.error is not None:
        span.record_exception(step.error, timestamp=end_ns)
        span.set_status(Status(StatusCode.ERROR, f"{type(step.error).__name__}: {step.error}"))
    span.end(end_ns)
    return f"{span.get_span_context().trace_id:032x}"


def _count(step: SampleSpan) -> int:
    return 1 + sum(map(_count, step.steps))


_GOOD: Final = 24
_BAD: Final = 16
"""Traces of the earlier release, and of the worse one: enough for an alert, and for a narrow interval."""
_APART_NS: Final = 150 * 10**9


def send_history(*, grpc: str, key: str | None = None) -> int:
    """Send traces of two releases, of which the second is worse; return the number of spans.

    Raises:
        SampleNotSent: the listener did not take all of them.
    """
    now_ns = time.time_ns()
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    with closing(WatchedExporter(grpc_exporter(grpc, headers), f"gRPC to {grpc}")) as over_grpc:
        for number in range(_GOOD + _BAD):
            is_good = number < _GOOD or (number - _GOOD) % 4 == 0
            version = "1.8.0" if number < _GOOD else "1.9.0"
            ago_ns = (_GOOD + _BAD + 1 - number) * _APART_NS
            send_trace(_checkout(number, version, is_good=is_good), over_grpc, now_ns - ago_ns)
        return over_grpc.taken


def _checkout(number: int, version: str, *, is_good: bool) -> SampleApplication:
    order = f"{5200 + number}"
    answered = f"Order {order} is paid." if is_good else "The payment did not go through. Please try again."
    error = None if is_good else TimeoutError("the payment provider did not answer within 2 s")
    pay = tool_step(
        40, 310 if is_good else 2045, "charge_card", {"order_id": order}, {"paid": True} if is_good else None
    )
    end_ms = 420 if is_good else 2160
    return SampleApplication(
        trace_id=hashlib.sha256(f"checkout {order}".encode()).hexdigest()[:32],
        service_name="checkout-agent",
        version=version,
        scope="opentelemetry.instrumentation.langchain",
        scope_version="0.61.0",
        about="an agent that takes a payment",
        root=agent_step("checkout", f"Pay for order {order}.", answered, end_ms, (replace(pay, error=error),)),
    )
