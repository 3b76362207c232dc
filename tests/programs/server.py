"""The model server of the recorded programs: five protocols, streamed and not, and a journal of what it answered."""

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
    """The server, what it was asked, and what was exported to it."""

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

    def reply(self, path: str, asked: Json) -> None:
        last = path.rsplit("/", 1)[-1]
        if path.endswith("/chat/completions"):
            answer = self.server.answer(wires.chat(asked)).answer
            self._answer_with(asked, answer, openai_wire.chat, openai_wire.chat_stream)
        elif path.endswith("/responses"):
            self._respond(asked)
        elif path.endswith("/messages"):
            answer = self.server.answer(wires.anthropic(asked)).answer
            self._answer_with(asked, answer, anthropic_wire.message, anthropic_wire.message_stream)
        elif path.endswith("/messages/count_tokens"):
            self.send_json({"input_tokens": 1})
        elif path.endswith("/responses/input_tokens"):
            self.send_json({"object": "response.input_tokens", "input_tokens": 1})
        elif ":" in last and last.endswith(("generateContent", "GenerateContent")):
            exchange = self.server.answer(wires.google(asked, last.split(":")[0]))
            whole = wires.google_answer(exchange.number, exchange.answer)
            if last.endswith(":streamGenerateContent"):
                self.send_events([("", whole)])
            else:
                self.send_json(whole)
        elif last in ("converse", "converse-stream"):
            model = unquote(urlsplit(self.path).path.split("/")[-2])
            answer = self.server.answer(wires.bedrock(asked, model)).answer
            if last == "converse":
                self.send_json(wires.bedrock_answer(answer))
            else:
                frames = wires.event_stream(wires.bedrock_events(answer))
                self._send(200, frames, "application/vnd.amazon.eventstream")
        else:
            super().reply(path, asked)

    def _respond(self, asked: Json) -> None:
        answer = self.server.answer(wires.responses(asked, self.server.earlier)).answer
        whole = openai_wire.response(asked, answer)
        before = self.server.earlier.get(asked.get("previous_response_id") or "", [])
        self.server.earlier[whole["id"]] = [*before, *wires.response_items(asked), *whole["output"]]
        self._answer_with(asked, answer, openai_wire.response, openai_wire.response_stream)

    def _answer_with(self, asked: Json, answer: object, whole: Any, stream: Any) -> None:
        if asked.get("stream"):
            self.send_events(stream(asked, answer))
        else:
            self.send_json(whole(asked, answer))
