"""A local model server that speaks the protocols of chat models, and does to its client whatever a script says."""

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

from tests.corpus.record import openai_wire
from tests.corpus.record.script import CHAT_MODEL_DATED, Answer, Tokens

MODEL_RETURNED = CHAT_MODEL_DATED
CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
GARBAGE = b"\x00\xff not http, not json \x1b"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One received request."""

    path: str
    headers: Mapping[str, str]  # lower-case names
    body: dict[str, Any]

    @property
    def system(self) -> str:
        """Return the system prompt."""
        prompt = self.body.get("instructions") or self.body.get("system") or self.body["messages"][0]["content"]
        return str(prompt)

    @property
    def user(self) -> str:
        """Return the user's part of the prompt."""
        if self.path in {CHAT, MESSAGES}:
            return openai_wire.chat_question(self.body)[0]
        return openai_wire.responses_question(self.body)[0]

    @property
    def schema(self) -> dict[str, Any] | None:
        """Return the schema of the structured output that is asked for."""
        if self.path == CHAT:
            form: dict[str, Any] | None = self.body.get("response_format", {}).get("json_schema")
        elif self.path == MESSAGES:
            form = self.body.get("output_config", {}).get("format")
        else:
            form = self.body.get("text", {}).get("format")
        return form["schema"] if form else None


@dataclass(frozen=True, slots=True)
class Says:
    """An answer of the protocol with this text; any other value is written as JSON."""

    value: object
    input_tokens: int = 100
    output_tokens: int = 20

    @property
    def text(self) -> str:
        """Return the text of the response."""
        return self.value if isinstance(self.value, str) else json.dumps(self.value)


@dataclass(frozen=True, slots=True)
class Status:
    """An error status."""

    code: int
    body: bytes = b'{"error": {"message": "scripted", "type": "error"}}'
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sends:
    """A success with any body."""

    body: bytes
    content_type: str = "application/json"


@dataclass(frozen=True, slots=True)
class HalfSends:
    """A body that announces more than it sends, and then the end of the connection."""

    body: bytes


@dataclass(frozen=True, slots=True)
class Streams:
    """Chunks without an end, of a body with this status."""

    chunk: bytes = GARBAGE * 1000
    code: int = 200
    pause_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Hangs:
    """No response, until the client has gone."""


Step: TypeAlias = Says | Status | Sends | HalfSends | Streams | Hangs
Script: TypeAlias = Callable[[ModelRequest], Step]


class ModelServer(ThreadingHTTPServer):
    """A scripted model server, and the requests that it received."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128  # connections that wait to be taken; of more than five at once some would be reset

    def __init__(self, script: Script) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script = script
        self.requests: list[ModelRequest] = []
        self.stopping = threading.Event()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that were killed."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

    @property
    def base_url(self) -> str:
        """Return the base URL for a connection."""
        return f"http://127.0.0.1:{self.server_port}/v1"


@contextmanager
def a_model(script: Script | object) -> Iterator[ModelServer]:
    """Start a server that answers by the script, or always with one step or value, or with a list of them in turn."""
    server = ModelServer(_as_script(script))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.stopping.set()
        server.shutdown()
        server.server_close()
        thread.join()


def _as_script(script: Script | object) -> Script:
    if callable(script):
        return script
    if isinstance(script, list):
        steps = iter(script)
        return lambda _: _as_step(next(steps))
    return lambda _: _as_step(script)


def _as_step(step: object) -> Step:
    return step if isinstance(step, Says | Status | Sends | HalfSends | Streams | Hangs) else Says(step)


def _message(_: dict[str, Any], answer: Answer) -> dict[str, Any]:
    """Return an answer of Anthropic's protocol: a tenth of the input came out of a cache."""
    cached = answer.tokens.input // 10
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": MODEL_RETURNED,
        "content": [{"type": "thinking", "thinking": "hm", "signature": "x"}, {"type": "text", "text": answer.text}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": answer.tokens.input - cached,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": cached,
            "output_tokens": answer.tokens.output,
        },
    }


_WRITERS: Mapping[str, Callable[[dict[str, Any], Answer], dict[str, Any]]] = {
    CHAT: openai_wire.chat,
    RESPONSES: openai_wire.response,
    MESSAGES: _message,
}


class _Handler(BaseHTTPRequestHandler):
    server: ModelServer
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        nbytes = int(self.headers["Content-Length"])
        text = self.rfile.read(nbytes)
        if len(text) < nbytes:  # the client was killed
            self.close_connection = True
            return
        body = json.loads(text)
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = ModelRequest(path=self.path, headers=headers, body=body)
        self.server.requests.append(request)
        if self.path not in _WRITERS:
            self._send(404, b'{"error": {"message": "no such path"}}')
            return
        try:
            self._take(self.server.script(request), request)
        except OSError:  # the client had enough
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass

    def _take(self, step: Step, request: ModelRequest) -> None:
        match step:
            case Says():
                tokens = Tokens(input=step.input_tokens, output=step.output_tokens)
                answer = _WRITERS[self.path](request.body, Answer(text=step.text, tokens=tokens))
                self._send(200, json.dumps(answer).encode())
            case Status():
                self._send(step.code, step.body, headers=step.headers)
            case Sends():
                self._send(200, step.body, step.content_type)
            case HalfSends():
                self._send(200, step.body, length=len(step.body) + 1000)
                self.close_connection = True
            case Streams():
                self._stream(step)
            case Hangs():
                self.server.stopping.wait()
                self.close_connection = True

    def _stream(self, step: Streams) -> None:
        self.send_response(step.code)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while not self.server.stopping.is_set():
            self.wfile.write(b"%x\r\n%s\r\n" % (len(step.chunk), step.chunk))
            time.sleep(step.pause_s)

    def _send(
        self,
        code: int,
        body: bytes,
        content_type: str = "application/json",
        length: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.send_response(code)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
