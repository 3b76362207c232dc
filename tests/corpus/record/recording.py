"""Runs an application's scenarios against the scripted model and writes what its instrumentation exports.

One folder a dialect, one folder in it a scenario: `traces.json` and, where the library logs, `logs.json`, each one
OTLP/JSON request, with `expected.json` beside them. Environment variables are set before anything is imported that
reads them, so `tests.corpus.record.recording` is the first import of a recording script.
"""

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.corpus.record import otlp_json
from tests.corpus.record.model_server import ModelServer, serving

CORPUS = Path(__file__).resolve().parent.parent
REQUESTS: dict[str, type[Message]] = {"traces": ExportTraceServiceRequest, "logs": ExportLogsServiceRequest}
MACHINE = ("host.", "os.", "process.")

Expected = dict[str, object]


class Recording:
    """The recording of one dialect."""

    def __init__(self, dialect: str, server: ModelServer) -> None:
        self.dialect = dialect
        self.server = server
        self.flushes: list[Callable[[], object]] = []

    @contextmanager
    def scenario(self, name: str, expected: Expected) -> Iterator[None]:
        """Write the spans exported inside, with their expectation."""
        with self._exported():
            yield
        folder = CORPUS / self.dialect / name
        folder.mkdir(parents=True, exist_ok=True)
        for signal, message in received(self.server.received).items():
            forget_the_machine(message)
            (folder / f"{signal}.json").write_text(_neutral(otlp_json.dumps(message)), encoding="utf-8")
        (folder / "expected.json").write_text(otlp_json.pretty(expected), encoding="utf-8")

    @contextmanager
    def session(self, name: str) -> Iterator[None]:
        """Write the spans exported inside: the traces of one session."""
        with self._exported():
            yield
        for signal, message in received(self.server.received).items():
            forget_the_machine(message)
            file = CORPUS / "sessions" / (f"{name}.json" if signal == "traces" else f"{name}.{signal}.json")
            file.parent.mkdir(exist_ok=True)
            file.write_text(_neutral(otlp_json.dumps(message)), encoding="utf-8")

    @contextmanager
    def _exported(self) -> Iterator[None]:
        self._flush()
        self.server.received.clear()
        try:
            yield
        finally:
            self._flush()

    def _flush(self) -> None:
        for flush in self.flushes:
            flush()


def received(requests: Sequence[tuple[str, str, bytes]]) -> dict[str, Message]:
    """Concatenate the requests of each signal into one request; the bytes of protobuf messages are their union."""
    by_signal: dict[str, Message] = {}
    for path, content_type, body in requests:
        signal = path.removeprefix("/v1/")
        if signal in REQUESTS:
            request = by_signal.setdefault(signal, REQUESTS[signal]())
            if "json" in content_type:
                request.MergeFrom(otlp_json.loads(body, REQUESTS[signal]))
            else:
                request.MergeFromString(body)
    return by_signal


@contextmanager
def recording(dialect: str) -> Iterator[Recording]:
    """Record one dialect; the OpenTelemetry environment of the process is set for it."""
    with serving(ModelServer()) as server:
        os.environ.update(environment(dialect, server.url))
        yield Recording(dialect, server)


def environment(dialect: str, url: str) -> dict[str, str]:
    """Return the variables that send models and telemetry of a process to the server, and nothing elsewhere."""
    return {
        "HTTP_PROXY": url,
        "http_proxy": url,
        "HTTPS_PROXY": url,  # refuses to connect: libraries that report home do not
        "https_proxy": url,
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
        "OPENAI_API_KEY": "none",
        "OPENAI_BASE_URL": "http://api.openai.com/v1",
        "ANTHROPIC_API_KEY": "none",
        "ANTHROPIC_BASE_URL": "http://api.anthropic.com",
        "OTEL_SERVICE_NAME": dialect,
        "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=corpus",
        "OTEL_EXPORTER_OTLP_ENDPOINT": url,
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_BSP_SCHEDULE_DELAY": "60000",  # milliseconds: one request a scenario, sent by the flush
        "OTEL_BLRP_SCHEDULE_DELAY": "60000",
        "OTEL_METRICS_EXPORTER": "none",
    }


def export_traces(record: Recording) -> None:
    """Give the process a tracer provider that exports to the recording."""
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    record.flushes.append(provider.force_flush)


def export_logs(record: Recording) -> None:
    """Give the process a logger provider that exports to the recording."""
    from opentelemetry import _logs
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor

    provider = LoggerProvider()
    provider.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter()))
    _logs.set_logger_provider(provider)
    record.flushes.append(provider.force_flush)


@contextmanager
def application_span() -> Iterator[None]:
    """Yield the span of the application around several calls of a client: one trace."""
    from opentelemetry import trace

    with trace.get_tracer("shop.web").start_as_current_span("POST /ask"):
        yield


def forget_the_machine(message: Message) -> None:
    """Drop what a resource says of the host, its system and the process."""
    for resource in [group.resource for _, groups in message.ListFields() for group in groups]:
        kept = [attribute for attribute in resource.attributes if not attribute.key.startswith(MACHINE)]
        del resource.attributes[:]
        resource.attributes.extend(kept)


def _neutral(text: str) -> str:
    # Stack traces name the paths of the machine that recorded them.
    text = text.replace(str(CORPUS.parent.parent), "/app").replace(sys.prefix, "/venv").replace(sys.base_prefix, "/usr")
    return re.sub(r"/tmp/[\w.-]+/[\w.-]+/", "/app/", text)
