"""Services that stay as good as they were raise no alert, whether their traces have content or not."""

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans

from tests.live import ANY_PORTS, Live, a_live_server, until
from tests.traffic import Send, over_http

pytestmark = pytest.mark.costly(
    "collector/children",
    "collector/conventions",
    "collector/listeners",
    "collector/evaluation",
    "collector/live",
    "collector/otlp",
    "collector/reading",
    "evaluators",
    "rules",
    "storage",
)

RULES: Final = {
    "tool errors": ("tool_error", {}),
    "valid calls": ("tool_call_validity", {}),
    "brief": ("length", {"maximumOutputLength": 60}),
    "answered": ("regex", {"pattern": "order"}),
    "steps": ("execution_metrics", {"maxToolCalls": 3}),
}
SERVICES: Final = [f"shop-{number}" for number in range(6)]
RELEASES: Final = ["1.0.0", "1.1.0", "1.2.0"]
TRACES: Final = 150
"""Of each release of a service: the release monitors compare from 30 results on."""
ERRORS: Final = 0.25
"""How often a tool fails, in every release of every service: with content off, these alone are judged, and are enough
for monitors to compare."""
TOOLS: Final = json.dumps(
    [
        {
            "type": "function",
            "name": "lookup",
            "parameters": {"type": "object", "properties": {"order": {"type": "integer"}}, "required": ["order"]},
        }
    ]
)


def _says(role: str, text: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


def _span(spans: ScopeSpans, trace_id: bytes, span_id: bytes, parent: bytes, **attributes: str | int) -> Any:
    now = time.time_ns()
    span = spans.spans.add(trace_id=trace_id, span_id=span_id, parent_span_id=parent, name="step")
    span.start_time_unix_nano, span.end_time_unix_nano = now, now + 1_000_000
    for name, value in attributes.items():
        added = span.attributes.add(key=name).value
        if isinstance(value, int):
            added.int_value = value
        else:
            added.string_value = value
    return span


def _trace(spans: ScopeSpans, source: random.Random, *, captured: bool, errors: float) -> None:
    """Add the trace of an agent that calls a tool; `captured`: with its messages, arguments and results."""
    trace_id, root, chat, tool = source.randbytes(16), *(source.randbytes(8) for _ in range(3))
    question, answer = _says("user", "Where is it?"), _says("assistant", "Your order is on its way.")
    messages = {"gen_ai.input.messages": question, "gen_ai.output.messages": answer} if captured else {}
    _span(spans, trace_id, root, b"", **{"gen_ai.operation.name": "invoke_agent", **messages})
    usage: dict[str, str | int] = {
        "gen_ai.request.model": "small",
        "gen_ai.usage.input_tokens": 9,
        "gen_ai.usage.output_tokens": 7,
    }
    offered = {"gen_ai.tool.definitions": TOOLS} if captured else {}
    _span(spans, trace_id, chat, root, **{"gen_ai.operation.name": "chat", **usage, **messages, **offered})
    called = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "lookup", "gen_ai.tool.call.id": "c1"}
    failed = source.random() < errors
    if captured:
        called["gen_ai.tool.call.arguments"] = '{"order": 7}'
        called |= {} if failed else {"gen_ai.tool.call.result": '{"state": "on its way"}'}
    span = _span(spans, trace_id, tool, root, **called)
    if failed:
        span.status.code = 2
        span.status.message = "the warehouse did not answer"


def _pydantic(spans: ScopeSpans, source: random.Random, *, captured: bool, errors: float) -> None:
    """Add such a trace as Pydantic AI sends it: with capture off, its messages have parts without content."""
    trace_id, root, asking, tool, last = source.randbytes(16), *(source.randbytes(8) for _ in range(4))
    failed = source.random() < errors

    def part(kind: str, **content: Any) -> dict[str, Any]:
        return {
            "type": kind,
            **({"id": "c1", "name": "lookup"} if "tool" in kind else {}),
            **(content if captured else {}),
        }

    question = [{"role": "user", "parts": [part("text", content="Where is it?")]}]
    call = [{"role": "assistant", "parts": [part("tool_call", arguments={"order": 7})], "finish_reason": "tool_call"}]
    result = [{"role": "user", "parts": [part("tool_call_response", result="failed" if failed else "on its way")]}]
    answer = [{"role": "assistant", "parts": [part("text", content="Your order is on its way.")]}]
    attributes = {"pydantic_ai.all_messages": json.dumps(question + call + result + answer)}
    _span(spans, trace_id, root, b"", **{"gen_ai.operation.name": "invoke_agent", **attributes})
    model = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "small", "gen_ai.tool.definitions": TOOLS}
    for span_id, sent, received in ((asking, question, call), (last, question + call + result, answer)):
        messages = {"gen_ai.input.messages": json.dumps(sent), "gen_ai.output.messages": json.dumps(received)}
        _span(spans, trace_id, span_id, root, **model, **messages)
    called = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "lookup", "gen_ai.tool.call.id": "c1"}
    if captured:
        called["gen_ai.tool.call.arguments"] = '{"order": 7}'
        called |= {} if failed else {"gen_ai.tool.call.result": '{"state": "on its way"}'}
    _span(spans, trace_id, tool, root, **called).status.code = 2 if failed else 0


def _openinference(spans: ScopeSpans, source: random.Random, *, captured: bool, errors: float) -> None:
    """Add such a trace as OpenInference sends it: with inputs and outputs hidden, a mark stands in their place."""
    trace_id, root, chat, tool = source.randbytes(16), *(source.randbytes(8) for _ in range(3))

    def texts(prompt: str, answered: str) -> dict[str, str]:
        return {"input.value": prompt, "output.value": answered} if captured else dict.fromkeys(_VALUES, "__REDACTED__")

    talk = texts("Where is it?", "Your order is on its way.")
    offered = {"llm.model_name": "small", "llm.tools.0.tool.json_schema": TOOLS.strip("[]")}
    _span(spans, trace_id, root, b"", **{"openinference.span.kind": "AGENT"}, **talk)
    _span(spans, trace_id, chat, root, **{"openinference.span.kind": "LLM"}, **offered, **talk)
    called = {"openinference.span.kind": "TOOL", "tool.name": "lookup"}
    span = _span(spans, trace_id, tool, root, **called, **texts('{"order": 7}', '{"state": "on its way"}'))
    span.status.code = 2 if source.random() < errors else 0


_VALUES: Final = ("input.value", "output.value")
STYLES: Final = {"shop-2": _pydantic, "shop-3": _pydantic, "shop-4": _openinference, "shop-5": _openinference}
"""Services of other instrumentations than OpenTelemetry's."""


def _release(source: random.Random, service: str, version: str, *, captured: bool, errors: float = ERRORS) -> bytes:
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    for key, value in (("service.name", service), ("service.version", version)):
        resource.resource.attributes.add(key=key).value.string_value = value
    spans = resource.scope_spans.add()
    for _ in range(TRACES):
        STYLES.get(service, _trace)(spans, source, captured=captured, errors=errors)
    return request.SerializeToString()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Live]:
    """Yield a server whose rules judge every trace, and whose traces settle soon."""
    folder = tmp_path / "rules"
    folder.mkdir()
    for name, (evaluator, configuration) in RULES.items():
        rule = {"name": name, "target": "TRACE", "evaluator": evaluator, "config": configuration}
        (folder / f"{evaluator}.yaml").write_text(yaml.safe_dump(rule))
    settings = {"rules": str(folder), "settle_after_root_seconds": 0.2}
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump(settings))
    with a_live_server(tmp_path / "data", flags=(*ANY_PORTS, "--config", str(config))) as started:
        yield started


def _watched(server: Live, traces: int) -> None:
    """Wait until each rule has evaluated `traces` traces, and monitors have read all results."""
    evaluated = "SELECT count(*) FROM evaluations"
    until(lambda: server.sql(evaluated), lambda rows: int(str(rows[0][0])) >= traces * len(RULES), within_s=120)
    counted = server.sql("SELECT count(*) FROM evaluations WHERE outcome = 'scored'")[0][0]

    def looked() -> int:
        streams = server.client.get(f"{server.http}/api/v1/monitors", params={"size": 200}).json()["content"]
        return sum(each["results"] for each in streams)

    until(looked, lambda results: results >= int(str(counted)), within_s=60)


@pytest.mark.simulation
@pytest.mark.timeout(600)
def test_services_that_stay_as_they_are_raise_no_alert(server: Live, seed: int) -> None:
    """Six services with three releases, content on and off in turn, are silent; a release that is worse is not."""
    source = random.Random(seed)
    with over_http(server) as send:
        _come(send, source, server)
        assert server.sql("SELECT rule, project, baseline, candidate, baseline_rate FROM alert") == []
        assert send(_release(source, SERVICES[0], "1.3.0", captured=True, errors=0.6)).kind == "taken"
        _watched(server, TRACES * (len(SERVICES) * len(RELEASES) + 1))
        alerts = server.sql("SELECT DISTINCT rule FROM alert")
    assert alerts == [["tool errors"]]


def _come(send: Send, source: random.Random, server: Live) -> None:
    for number, version in enumerate(RELEASES):
        for index, service in enumerate(SERVICES):
            assert send(_release(source, service, version, captured=(number + index) % 2 == 0)).kind == "taken"
        _watched(server, TRACES * len(SERVICES) * (number + 1))
