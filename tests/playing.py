"""A server with a conversation in it, and models to go on with that in the playground."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.app import Running
from tests.answers import check_answer
from tests.connecting import a_connection
from tests.live import a_client, until
from tests.model_server import ModelServer, Says, a_model
from tests.serving import PROTOBUF, a_server

TRACE, SPAN = "5b" * 16, "5b" * 8
PRICE = {"inputUsdPerMillion": 10, "outputUsdPerMillion": 100}
TOOLS = [{"name": "weather", "description": "Tells it", "parameters": {"type": "object", "properties": {}}}]
CALL = {"type": "tool_call", "id": "c1", "name": "weather", "arguments": {"city": "Oslo"}}
MESSAGES = [
    {"role": "system", "parts": [{"type": "text", "content": "Be brief."}]},
    {"role": "user", "parts": [{"type": "text", "content": "Is it cold in Oslo?"}]},
    {"role": "assistant", "parts": [CALL]},
    {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "minus three"}]},
]
ANSWER = [{"role": "assistant", "parts": [{"type": "text", "content": "Yes, it is minus three."}]}]
PARAMETERS = {"gen_ai.request.temperature": 0.25, "gen_ai.request.max_tokens": 200, "gen_ai.request.top_p": 0.9}


@dataclass(slots=True, kw_only=True)
class Played:
    """The server and two models."""

    running: Running
    models: tuple[ModelServer, ModelServer]

    @property
    def origin(self) -> str:
        """Return the address of its pages."""
        return f"http://{self.running.http}"

    def connect(self, **keys: Any) -> list[str]:
        """Recreate the connections `one` and `two` to the models; return their ids."""
        connections = self.running.context.judging.connections
        for each in connections.all():
            connections.delete(each.connection_id)
        for model in self.models:
            model.requests.clear()
        made = []
        for name, model, protocol in zip(("one", "two"), self.models, ("CHAT_COMPLETIONS", "ANTHROPIC"), strict=True):
            document = a_connection(
                model.base_url, name=name, model=f"model-{name}", protocol=protocol, price=PRICE, maxOutputTokens=300
            )
            made.append(connections.create(document | keys).connection_id)
        return made

    def play(self, *connections: str, **more: Any) -> httpx.Response:
        """Send the prompt of the span to these connections."""
        body = {"messages": MESSAGES[:2], "answers": [{"connectionId": each} for each in connections]}
        with a_client() as client:
            return check_answer(client.post(f"{self.origin}/api/v1/playground", json=body | more))

    def answers(self, *connections: str, **more: Any) -> list[dict[str, Any]]:
        """Send the prompt of the span; return the answers."""
        answer = self.play(*connections, **more)
        assert answer.status_code == 200, answer.text
        answers: list[dict[str, Any]] = answer.json()["answers"]
        return answers

    def sql(self, statement: str) -> list[tuple[object, ...]]:
        """Query the server; return the rows."""
        return [tuple(row) for row in self.running.store.queries.sql(statement, max_rows=100, timeout_s=10).rows]

    def requests(self) -> list[list[dict[str, Any]]]:
        """Return the bodies that each model was sent."""
        return [[each.body for each in model.requests] for model in self.models]


@contextmanager
def a_played_server(data: Path, **settings: Any) -> Iterator[Played]:
    """Start a server with the span of a model; its models say "Bitterly." and "Very."."""
    with (
        a_model(Says("Bitterly.")) as one,
        a_model(Says("Very.")) as two,
        a_server(data, **settings) as running,
    ):
        played = Played(running=running, models=(one, two))
        send(running.otlp_http, a_conversation())
        until(lambda: played.sql("SELECT 1 FROM spans WHERE span_type = 'llm'"), bool)
        yield played


def a_conversation(trace_id: str = TRACE, **attributes: Any) -> ExportTraceServiceRequest:
    """Build a trace of one span of a model, with more attributes."""
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    for key, value in (("service.name", "agent"), ("dokimos.project", "shop")):
        resource.resource.attributes.add(key=key).value.string_value = value
    now_ns = time.time_ns()
    span = resource.scope_spans.add().spans.add(
        trace_id=bytes.fromhex(trace_id),
        span_id=bytes.fromhex(SPAN),
        name="chat model-two",
        start_time_unix_nano=now_ns - 10**9,
        end_time_unix_nano=now_ns,
    )
    span_attributes = PARAMETERS | {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "model-two",
        "gen_ai.response.model": "model-two",
        "gen_ai.input.messages": json.dumps(MESSAGES),
        "gen_ai.output.messages": json.dumps(ANSWER),
        "gen_ai.tool.definitions": json.dumps(TOOLS),
    }
    for key, value in (span_attributes | attributes).items():
        held = span.attributes.add(key=key).value
        match value:
            case float():
                held.double_value = value
            case int():
                held.int_value = value
            case _:
                held.string_value = value
    return request


def send(otlp_http: str, request: ExportTraceServiceRequest, *, key: str = "") -> None:
    """Send it."""
    headers = {"content-type": PROTOBUF} | ({"authorization": f"Bearer {key}"} if key else {})
    with a_client() as client:
        sent = client.post(f"http://{otlp_http}/v1/traces", content=request.SerializeToString(), headers=headers)
        sent.raise_for_status()
