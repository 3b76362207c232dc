"""Applications that use the OpenTelemetry SDK, and their stored spans."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from textwrap import dedent

import grpc
import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter
from opentelemetry.trace import Link, SpanKind, StatusCode, format_trace_id

from tests.live import Live, a_live_server, environment, until
from tests.serving import run

PROGRAM = """
    import sys
    from {module} import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.trace import format_trace_id

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    tracer = provider.get_tracer("an application")
    with tracer.start_as_current_span("answer") as root:
        for number in range(3):
            with tracer.start_as_current_span(f"step {{number}}"):
                pass
    provider.shutdown()
    sys.stdout.write(format_trace_id(root.get_span_context().trace_id))
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """Yield a server that all tests here send to."""
    with a_live_server(tmp_path_factory.mktemp("exporters") / "data") as server:
        yield server


def over_grpc(server: Live, compression: str) -> SpanExporter:
    """Return the exporter for gRPC."""
    kinds = {"none": grpc.Compression.NoCompression, "gzip": grpc.Compression.Gzip, "deflate": grpc.Compression.Deflate}
    return GrpcExporter(endpoint=server.grpc, insecure=True, compression=kinds[compression])


def over_http(server: Live, compression: str) -> SpanExporter:
    """Return the exporter for HTTP."""
    kinds = {"none": Compression.NoCompression, "gzip": Compression.Gzip, "deflate": Compression.Deflate}
    return HttpExporter(endpoint=f"{server.otlp_http}/v1/traces", compression=kinds[compression])


def an_agent_runs(processor: SpanProcessor, *, project: str) -> str:
    """Build a trace of three spans with everything that the API can set; its id."""
    provider = TracerProvider(resource=Resource({"service.name": "agent", "dokimos.project": project}))
    provider.add_span_processor(processor)
    tracer = provider.get_tracer("agents", "1.2", attributes={"of": "scope"})
    with tracer.start_as_current_span("invoke_agent", kind=SpanKind.SERVER) as root:
        root.set_attributes({"count": 3, "ratio": 0.5, "fine": True, "names": ["a", "b"]})
        with tracer.start_as_current_span(
            "execute_tool", links=[Link(root.get_span_context(), {"why": "same"})]
        ) as tool:
            tool.add_event("retry", {"attempt": 2})
            tool.record_exception(ValueError("no such order"))
            tool.set_status(StatusCode.ERROR, "no such order")
        with tracer.start_as_current_span("chat", kind=SpanKind.CLIENT) as chat:
            chat.set_attribute("gen_ai.request.model", "small")
    provider.shutdown()
    return format_trace_id(root.get_span_context().trace_id)


def wait_visible(server: Live, trace_id: str, spans: int) -> None:
    """Wait until exactly `spans` spans of a trace are visible in SQL."""
    question = f"SELECT count(*) FROM spans WHERE trace_id = '{trace_id}'"
    until(lambda: server.sql(question), lambda rows: rows == [[spans]])


@pytest.mark.costly("collector/listeners", "collector/otlp", "storage/ingest")
@pytest.mark.parametrize("compression", ["none", "gzip", "deflate"])
@pytest.mark.parametrize("processor", [BatchSpanProcessor, SimpleSpanProcessor])
@pytest.mark.parametrize("exporter", [over_grpc, over_http])
def test_what_an_exporter_sends_is_visible(
    server: Live,
    exporter: Callable[[Live, str], SpanExporter],
    processor: Callable[[SpanExporter], SpanProcessor],
    compression: str,
) -> None:
    """Every exporter, processor and compression of the SDK delivers, and SQL shows the spans."""
    trace_id = an_agent_runs(processor(exporter(server, compression)), project="soon")
    wait_visible(server, trace_id, 3)


@pytest.mark.parametrize("exporter", [over_grpc, over_http])
def test_everything_that_the_sdk_sets_can_be_read(server: Live, exporter: Callable[[Live, str], SpanExporter]) -> None:
    """The API, SQL and the command line show the same trace with its attributes, events, links and status."""
    project = f"read {exporter.__name__}"
    trace_id = an_agent_runs(BatchSpanProcessor(exporter(server, "gzip")), project=project)
    wait_visible(server, trace_id, 3)

    (listed,) = server.client.get(f"{server.http}/api/v1/traces", params={"project": project}).json()["content"]
    assert (listed["traceId"], listed["rootSpanName"], listed["spanCount"], listed["errorCount"]) == (
        trace_id,
        "invoke_agent",
        3,
        1,
    )
    document = server.client.get(f"{server.http}/api/v1/traces/{trace_id}").json()
    root, tool, chat = document["spans"]
    assert root["attributes"] == {"count": 3, "ratio": 0.5, "fine": True, "names": ["a", "b"]}
    assert (root["kind"], tool["kind"], chat["kind"]) == ("SERVER", "INTERNAL", "CLIENT")
    assert (tool["statusCode"], tool["statusMessage"]) == ("ERROR", "no such order")
    assert [event["name"] for event in tool["events"]] == ["retry", "exception"]
    assert tool["events"][1]["attributes"]["exception.message"] == "no such order"
    assert [(link["spanId"], link["attributes"]) for link in tool["links"]] == [(root["spanId"], {"why": "same"})]
    assert tool["parentSpanId"] == chat["parentSpanId"] == root["spanId"]
    assert (chat["scope"]["name"], chat["scope"]["version"], chat["scope"]["attributes"]) == (
        "agents",
        "1.2",
        {"of": "scope"},
    )
    assert chat["resource"]["attributes"]["service.name"] == "agent"

    shown = run("traces", "show", trace_id, "--json", "--server", server.http)
    assert json.loads(shown.stdout) == document
    question = f"SELECT name, attributes['gen_ai.request.model'] FROM spans WHERE span_id = '{chat['spanId']}'"
    assert server.sql(question) == [["chat", "small"]]
    result = run("sql", question, "--csv", "--server", server.http)
    assert result.stdout.splitlines()[1:] == ["chat,small"]


@pytest.mark.parametrize(
    "module, address",
    [
        ("opentelemetry.exporter.otlp.proto.grpc.trace_exporter", "grpc"),
        ("opentelemetry.exporter.otlp.proto.http.trace_exporter", "otlp_http"),
    ],
)
def test_an_application_needs_the_endpoint_alone(server: Live, module: str, address: str) -> None:
    """OTEL_EXPORTER_OTLP_ENDPOINT is the only variable that an application needs."""
    application = subprocess.run(
        [sys.executable, "-c", dedent(PROGRAM.format(module=module))],
        env=environment({"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{server.ready[address]}"}),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert application.stderr == ""
    wait_visible(server, application.stdout, 4)


def test_spans_of_many_providers_at_once_all_arrive(server: Live) -> None:
    """Exporters that work at the same time do not get into each other's way."""
    processors = [
        BatchSpanProcessor(exporter(server, compression))
        for exporter in (over_grpc, over_http)
        for compression in ("none", "gzip")
    ]
    provider = TracerProvider(resource=Resource({"service.name": "many", "dokimos.project": "many"}))
    for processor in processors:  # each span goes out four times, over both doors
        provider.add_span_processor(processor)
    tracer = provider.get_tracer("many")
    for number in range(1500):
        tracer.start_span(f"span {number}").end()
    provider.shutdown()
    question = "SELECT count(*), count(DISTINCT span_id) FROM spans WHERE project = 'many'"
    until(lambda: server.sql(question), lambda rows: rows == [[1500, 1500]])
