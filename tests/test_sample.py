"""The sample that a first start sends."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry import trace

from collector.app import Running
from collector.conventions.own_keys import NO_KEYS
from collector.conventions.trace import read_trace
from collector.sample import PROJECT, SampleNotSent, SampleReport, SampleTrace, describe, send_history, send_sample
from storage.records import Trace
from tests.live import until
from tests.serving import a_server, run, unused_port

TOOLS = {"support-agent": ["get_order", "create_return"], "docs-assistant": [], "travel-agent": ["search_flights"]}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Yield an empty server."""
    with a_server(tmp_path_factory.mktemp("sample") / "data") as server:
        yield server


@pytest.fixture(scope="module")
def provider() -> trace.TracerProvider:
    """Return the global one, before anything is sent; other tests of this process may have set it."""
    return trace.get_tracer_provider()


@pytest.fixture(scope="module")
def report(server: Running, provider: trace.TracerProvider) -> SampleReport:  # noqa: ARG001 - comes before
    """Send the sample to the server."""
    sent = send_sample(grpc=server.grpc, otlp_http=server.otlp_http)
    assert server.store.wait_committed(10)
    return sent


@pytest.fixture(scope="module")
def traces(server: Running, report: SampleReport) -> dict[str, Trace]:
    """Return the stored traces, by service."""
    traces_read = [server.store.queries.trace(trace_id) for trace_id in report.trace_ids]
    return {stored.summary.service_name: stored for stored in traces_read if stored is not None}


def test_the_report_counts_what_is_stored(server: Running, report: SampleReport, traces: dict[str, Trace]) -> None:
    """Every span that was sent is stored, over the door that the report says."""
    assert {stored.summary.trace_id: len(stored.spans) for stored in traces.values()} == {
        sent.trace_id: sent.spans for sent in report.traces
    }
    assert (report.grpc_spans, report.otlp_http_spans) == (11, 4)
    assert {stored.summary.project for stored in traces.values()} == {PROJECT}
    assert (report.grpc, report.otlp_http) == (server.grpc, server.otlp_http)


def test_the_sample_reads_like_agents(traces: dict[str, Trace]) -> None:
    """Agents, models and tools of the sample have inputs and outputs, in two dialects, and one tool fails."""
    assert set(traces) == {"support-agent", "docs-assistant", "travel-agent"}
    for stored in traces.values():
        root = next(span for span in stored.spans if span.parent_span_id is None)
        reading = read_trace(stored.spans, stored.logs, NO_KEYS)
        assert reading.input
        assert reading.output
        assert reading.final_response
        assert [call.name for call in reading.tool_calls] == TOOLS[stored.summary.service_name]
        assert stored.summary.root_name == root.name
        assert {span.parent_span_id for span in stored.spans} - {None} <= {span.span_id for span in stored.spans}
    assert [stored.summary.error_count for stored in traces.values()] == [0, 0, 2]
    failed = [span for span in traces["travel-agent"].spans if span.status_code == 2]
    assert {event.attributes["exception.type"] for span in failed for event in span.events} == {"TimeoutError"}
    messages = next(span for span in traces["support-agent"].spans if span.name.startswith("chat ")).attributes
    assert json.loads(str(messages["gen_ai.input.messages"]))[-1]["role"] == "user"
    assert traces["docs-assistant"].spans[-1].attributes["openinference.span.kind"] == "LLM"


def test_the_sample_has_the_times_of_real_agents(traces: dict[str, Trace]) -> None:
    """Spans lie inside their parents, follow each other, and ended in the last minutes."""
    for stored in traces.values():
        by_id = {span.span_id: span for span in stored.spans}
        for span in stored.spans:
            assert span.end_ns is not None
            assert span.end_ns - span.start_ns < 5_000_000_000
            parent = by_id.get(span.parent_span_id or "")
            if parent is not None:
                assert parent.end_ns is not None
                assert parent.start_ns <= span.start_ns < span.end_ns <= parent.end_ns


def test_the_global_tracer_is_left_alone(report: SampleReport, provider: trace.TracerProvider) -> None:
    """Sending the sample does not make the process an instrumented one."""
    assert report.traces
    assert trace.get_tracer_provider() is provider


def test_the_description_tells_where_to_look(server: Running, report: SampleReport) -> None:
    """The printed description names each trace, and its commands work unchanged."""
    text = describe(report, http=server.http, options=f"--server http://{server.http}")
    assert all(trace_id in text for trace_id in report.trace_ids)
    commands = [line.strip() for line in text.splitlines() if line.startswith("  tracejury ")]
    assert [command.split()[1] for command in commands] == ["traces", "traces", "rules", "sql"]
    for command in commands[:2]:
        assert "invoke_agent travel" in run(*command.split()[1:]).stdout
    assert run(*commands[2].split()[1:]).stdout == "no rules here\n"  # the command that serves the sample brings one
    question = commands[3].split('"')[1]
    assert "execute_tool search_flights" in run("sql", question, "--server", server.http).stdout
    assert f"curl 'http://{server.http}/api/v1/traces?project=sample'" in text


@pytest.mark.parametrize("door", ["gRPC", "HTTP"])
def test_a_door_that_is_closed_is_named(server: Running, door: str) -> None:
    """A sample that did not arrive is an error that says over which door."""
    closed = f"127.0.0.1:{unused_port()}"
    addresses = {"grpc": server.grpc, "otlp_http": server.otlp_http}
    addresses["grpc" if door == "gRPC" else "otlp_http"] = closed
    with pytest.raises(SampleNotSent, match=f"over {door} to {closed}"):
        send_sample(**addresses)


def test_a_server_with_keys_takes_the_sample_with_one(tmp_path: Path) -> None:
    """Over both doors; without the key it is not taken."""
    with a_server(tmp_path / "data", api_key="k" * 16) as closed:
        with pytest.raises(SampleNotSent):
            send_sample(grpc=closed.grpc, otlp_http=closed.otlp_http)
        sent = send_sample(grpc=closed.grpc, otlp_http=closed.otlp_http, key="k" * 16)
        assert min(sent.grpc_spans, sent.otlp_http_spans) > 0


def test_a_switched_off_sdk_is_an_error(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the environment turns the SDK off, the sample is reported as not sent."""
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    with pytest.raises(SampleNotSent):
        send_sample(grpc=server.grpc, otlp_http=server.otlp_http)


def test_a_report_has_its_traces_in_order() -> None:
    """The ids are those of the traces, as they were sent."""
    sent = tuple(SampleTrace(trace_id=name, service_name=name, about=name, spans=1) for name in "ab")
    made = SampleReport(traces=sent, grpc="g", grpc_spans=1, otlp_http="h", otlp_http_spans=1)
    assert made.trace_ids == ("a", "b")


def test_the_history_raises_an_alert(tmp_path: Path) -> None:
    """The history sent before the sample has two releases, of which monitors find the second worse."""
    rules = Path(__file__).parent.parent / "collector" / "sample_rules"
    settings = {"rules": rules, "settle_after_root_seconds": 0, "settle_quiet_seconds": 0}
    with a_server(tmp_path / "data", **settings) as server:
        assert send_history(grpc=server.grpc) == 2 * 40
        (alert,) = until(server.store.alerts.newest, bool)
        assert (alert.finding.baseline.release, alert.finding.candidate.release) == ("1.8.0", "1.9.0")
        assert alert.finding.project == PROJECT
