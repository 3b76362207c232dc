"""Recording programs: the catalogue names what exists, and the model server and the truth agree."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.corpus.record.model_server import serving
from tests.programs import truth
from tests.programs.apps import shop
from tests.programs.running import APPS, CATALOGUE
from tests.programs.server import ProgramsServer
from tests.programs.world import Exchange

PROMPT = shop.PROMPTS["seq-think"]
BODIES: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", {"model": "m", "messages": [{"role": "user", "content": PROMPT}]}),
    "responses": ("/v1/responses", {"model": "m", "input": PROMPT}),
    "anthropic": ("/v1/messages", {"model": "m", "messages": [{"role": "user", "content": PROMPT}]}),
    "google": ("/v1beta/models/m:generateContent", {"contents": [{"role": "user", "parts": [{"text": PROMPT}]}]}),
    "bedrock": ("/model/m/converse", {"messages": [{"role": "user", "content": [{"text": PROMPT}]}]}),
    "bedrock-stream": ("/model/m/converse-stream", {"messages": [{"role": "user", "content": [{"text": PROMPT}]}]}),
}


@pytest.fixture
def server() -> Iterator[ProgramsServer]:
    """Yield a model server for programs."""
    with serving(ProgramsServer()) as running:
        yield running


def ask(server: ProgramsServer, path: str, body: dict[str, Any]) -> Exchange:
    """Send a request to the model; return its answer."""
    with httpx.Client(trust_env=False) as client:
        client.post(server.url + path, json=body).raise_for_status()
    return server.world.exchanges[-1]


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_program_can_be_run_or_says_why_not(name: str) -> None:
    """Each program of the catalogue has a script and packages, or a reason why it cannot be recorded."""
    entry = CATALOGUE[name]
    assert entry.get("missing") or ((APPS / entry["script"][0]).is_file() and (entry.get("pip") or entry.get("npm")))


@pytest.mark.parametrize("protocol", BODIES)
def test_each_protocol_is_answered_with_a_call(server: ProgramsServer, protocol: str) -> None:
    """The first answer of the scenario is a tool call with reasoning, in each protocol."""
    exchange = ask(server, *BODIES[protocol])
    assert (exchange.scenario, [call.name for call in exchange.answer.calls]) == ("seq-think", ["lookup_stock"])
    assert exchange.request.prompt == PROMPT


@pytest.mark.parametrize("path", ["/v1/responses/input_tokens", "/v1/messages/count_tokens"])
def test_tokens_are_counted_without_an_answer(server: ProgramsServer, path: str) -> None:
    """Clients that count the tokens of a request before they send it get a number, and no exchange is noted."""
    with httpx.Client(trust_env=False) as client:
        counted = client.post(server.url + path, json={"model": "m", "input": PROMPT})
    assert counted.json()["input_tokens"] == 1
    assert server.world.exchanges == []


def test_a_conversation_moves_on(server: ProgramsServer) -> None:
    """A request with an answered call gets the scenario's next answer, and its truth names the earlier call."""
    path, body = BODIES["chat"]
    (call,) = ask(server, path, body).answer.calls
    tool_call = {"id": call.id, "function": {"name": call.name, "arguments": json.dumps(call.arguments)}}
    messages = [
        *body["messages"],
        {"role": "assistant", "tool_calls": [tool_call]},
        {"role": "tool", "tool_call_id": call.id, "content": str(call.result)},
    ]
    second = ask(server, path, {"model": "m", "messages": messages})
    assert [one.name for one in second.answer.calls] == ["track_order"]
    assert [id_ for entry in second.request.entries for id_ in entry.results] == [call.id]


def a_recorded_span(exchange: Exchange, **attributes: str | int) -> ExportTraceServiceRequest:
    """Return a request with a span around an exchange; underscores in names stand for dots."""
    request = ExportTraceServiceRequest()
    span = (
        request.resource_spans.add()
        .scope_spans.add()
        .spans.add(
            trace_id=b"t" * 16,
            span_id=b"s" * 8,
            name="chat",
            start_time_unix_nano=exchange.at_ns - 1,
            end_time_unix_nano=exchange.at_ns + 1,
        )
    )
    for name, value in attributes.items():
        added = span.attributes.add(key=name.replace("_", ".")).value
        if isinstance(value, int):
            added.int_value = value
        else:
            added.string_value = value
    return request


def truth_of(server: ProgramsServer, request: ExportTraceServiceRequest) -> dict[str, Any]:
    """Return the claims about the only trace."""
    spans = truth.spans_of(request, ExportLogsServiceRequest())
    (whole,) = truth.truths(server.world.exchanges, spans)
    return truth.expectation(whole, spans, "program")


def test_only_what_a_span_carries_is_claimed(server: ProgramsServer) -> None:
    """The truth of a span holds the fields whose values stand in it, and the others of the answer not."""
    exchange = ask(server, *BODIES["chat"])
    messages = json.dumps([{"content": PROMPT}])
    expected = truth_of(
        server, a_recorded_span(exchange, usage_output=exchange.answer.tokens.output, messages=messages)
    )
    claims = {"output_tokens": exchange.answer.tokens.output, "input": PROMPT}
    assert expected["spans"] == {(b"s" * 8).hex(): {"name": "chat", "span_type": "llm"} | claims}
    assert expected["trace"] == {"output_tokens": exchange.answer.tokens.output, "input_contains": [PROMPT]}


def test_of_joined_messages_the_question_is_claimed(server: ProgramsServer) -> None:
    """A framework that joins messages of one role afterwards has each of them in its span, and not the joined text."""
    path, body = BODIES["chat"]
    joined = [{"role": "user", "content": f"{PROMPT}\nError: try again"}]
    exchange = ask(server, path, {**body, "messages": joined})
    (claims,) = truth_of(server, a_recorded_span(exchange, usage=exchange.answer.tokens.output, messages=PROMPT))[
        "spans"
    ].values()
    assert claims["input_contains"] == [PROMPT]
    assert "input" not in claims


@pytest.mark.parametrize("kind", ["text", "reasoning"])
def test_thoughts_are_claimed_if_something_says_that_they_are(server: ProgramsServer, kind: str) -> None:
    """Reasoning that is sent as text cannot be distinguished from the answer after it."""
    exchange = ask(server, *BODIES["chat"])
    output = json.dumps([{"type": kind, "content": exchange.answer.reasoning, "finish_reason": "stop"}])
    (claims,) = truth_of(server, a_recorded_span(exchange, usage=exchange.answer.tokens.output, output=output))[
        "spans"
    ].values()
    assert claims.get("output_reasoning") == (exchange.answer.reasoning if kind == "reasoning" else None)


def test_the_span_of_usage_is_the_model_and_that_of_a_client_below_another_is_not(server: ProgramsServer) -> None:
    """Codex makes a span when the answer has come; Anthropic's client makes its own around the answer."""
    exchange = ask(server, *BODIES["chat"])
    request = ExportTraceServiceRequest()
    for parent, start_ns in (("client", exchange.at_ns - 1), ("turn", exchange.at_ns + 1)):
        for name, above, start in ((parent, b"", exchange.at_ns - 2), (f"in {parent}", parent.encode(), start_ns)):
            span = (
                request.resource_spans.add()
                .scope_spans.add()
                .spans.add(
                    trace_id=parent.encode(),
                    span_id=name.encode(),
                    parent_span_id=above,
                    name=name,
                    start_time_unix_nano=start,
                    end_time_unix_nano=exchange.at_ns + 2,
                )
            )
            span.attributes.add(key="usage").value.int_value = exchange.answer.tokens.output
    request.resource_spans[1].scope_spans[0].scope.name = truth.SDK_SCOPE
    spans = truth.spans_of(request, ExportLogsServiceRequest())
    models = truth.model_spans(exchange, list(spans.values()))
    assert [span.wire.name for span in models] == ["client", "in turn"]
