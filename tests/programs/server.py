"""The model server of the recorded programs: five protocols, streamed and not, and a journal of its answers."""

import threading
import time
from typing import Any
from urllib.parse import unquote, urlsplit

from tests.corpus.record import anthropic_wire, openai_wire
from tests.corpus.record.model_server import Handler, ModelServer
from tests.programs import wires
from tests.programs.world import Exchange, Request, World

Json = dict[str, Any]


class ProgramsServer(ModelServer):
    """A model server, the requests that it received, and the telemetry exported to it."""

    def __init__(self) -> None:
        super().__init__(_Handler)
        self.world = World()
        self.earlier: dict[str, list[Json]] = {}  # of OpenAI's responses: the items up to an answer, by its id
        self.turns = threading.Lock()

    def answer(self, request: Request) -> Exchange:
        """Answer, one request after the other."""
        with self.turns:
            return self.world.answer(request, time.time_ns())


class _Handler(Handler):
    server: ProgramsServer

    def reply(self, path: str, request: Json) -> None:
        last = path.rsplit("/", 1)[-1]
        if path.endswith("/chat/completions"):
            answer = self.server.answer(wires.chat(request)).answer
            self._answer_with(request, answer, openai_wire.chat, openai_wire.chat_stream)
        elif path.endswith("/responses"):
            self._respond(request)
        elif path.endswith("/messages"):
            answer = self.server.answer(wires.anthropic(request)).answer
            self._answer_with(request, answer, anthropic_wire.message, anthropic_wire.message_stream)
        elif path.endswith("/messages/count_tokens"):
            self.send_json({"input_tokens": 1})
        elif path.endswith("/responses/input_tokens"):
            self.send_json({"object": "response.input_tokens", "input_tokens": 1})
        elif ":" in last and last.endswith(("generateContent", "GenerateContent")):
            exchange = self.server.answer(wires.google(request, last.split(":")[0]))
            whole = wires.google_answer(exchange.number, exchange.answer)
            if last.endswith(":streamGenerateContent"):
                self.send_events([("", whole)])
            else:
                self.send_json(whole)
        elif last in ("converse", "converse-stream"):
            model = unquote(urlsplit(self.path).path.split("/")[-2])
            answer = self.server.answer(wires.bedrock(request, model)).answer
            if last == "converse":
                self.send_json(wires.bedrock_answer(answer))
            else:
                frames = wires.event_stream(wires.bedrock_events(answer))
                self._send(200, frames, "application/vnd.amazon.eventstream")
        else:
            super().reply(path, request)

    def _respond(self, request: Json) -> None:
        answer = self.server.answer(wires.responses(request, self.server.earlier)).answer
        whole = openai_wire.response(request, answer)
        before = self.server.earlier.get(request.get("previous_response_id") or "", [])
        self.server.earlier[whole["id"]] = [*before, *wires.response_items(request), *whole["output"]]
        self._answer_with(request, answer, openai_wire.response, openai_wire.response_stream)

    def _answer_with(self, request: Json, answer: object, whole: Any, stream: Any) -> None:
        if request.get("stream"):
            self.send_events(stream(request, answer))
        else:
            self.send_json(whole(request, answer))
