"""A local server that speaks the wire of OpenAI and Anthropic with scripted answers, and takes OTLP over HTTP.

It is also an HTTP proxy for them, so that an application may call http://api.openai.com and its telemetry names the
provider as it would in production, while nothing leaves the machine: whatever else is asked for is refused.
"""

import gzip
import json
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TypeVar
from urllib.parse import urlsplit

from tests.corpus.record import anthropic_wire, openai_wire
from tests.corpus.record.script import ANSWERS, REFUSAL, REFUSED, Answer

Json = dict[str, object]
Exchange = tuple[str, Answer, str]  # the question, its answer, the model that was asked


S = TypeVar("S", bound="ModelServer")


class ModelServer(ThreadingHTTPServer):
    """The server, and the OTLP requests that it received: path, content type and body."""

    daemon_threads = True

    def __init__(self, handler: "type[Handler] | None" = None) -> None:
        super().__init__(("127.0.0.1", 0), handler or Handler)
        self.received: list[tuple[str, str, bytes]] = []

    @property
    def url(self) -> str:
        """Return the base URL."""
        return f"http://127.0.0.1:{self.server_port}"


@contextmanager
def serving(server: S) -> Iterator[S]:
    """Let a server serve in a thread of its own; it is stopped at the end."""
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Handler(BaseHTTPRequestHandler):
    """One connection; subclasses answer differently."""

    server: ModelServer
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Keep telemetry, and answer everything else."""
        path, body = urlsplit(self.path).path, self._body()
        if path.endswith(("/v1/traces", "/v1/logs", "/v1/metrics")):
            signal = path[path.rindex("/v1/") :]
            self.server.received.append((signal, self.headers.get("Content-Type", ""), body))
            self._send(200, b"", self.headers.get("Content-Type", ""))
        else:
            self.reply(path, json.loads(body))

    def reply(self, path: str, request: Json) -> None:
        """Answer a request that is not telemetry."""
        match path:
            case "/v1/embeddings":
                self.send_json(openai_wire.embeddings(request))
            case "/v1/chat/completions":
                self._answer(request, *openai_wire.chat_question(request), openai_wire.chat, openai_wire.chat_stream)
            case "/v1/responses":
                question = openai_wire.responses_question(request)
                self._answer(request, *question, openai_wire.response, openai_wire.response_stream)
            case "/v1/messages":
                question = anthropic_wire.question(request)
                self._answer(request, *question, anthropic_wire.message, anthropic_wire.message_stream)
            case _:
                self.send_json({"error": {"message": f"no such path: {path}"}}, status=404)

    def log_message(self, *_: object) -> None:
        """Write nothing: a recording is silent."""

    def _answer(self, request: Json, question: str, turn: int, whole: object, stream: object) -> None:
        if question == REFUSED:
            error = {"message": REFUSAL, "type": "invalid_request_error", "param": None, "code": "refused"}
            self.send_json({"type": "error", "error": error}, status=400)
            return
        assert callable(whole)
        assert callable(stream)
        answer = ANSWERS[question][turn]
        if request.get("stream"):
            self.send_events(stream(request, answer))
        else:
            self.send_json(whole(request, answer))

    def _body(self) -> bytes:
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            chunks = []
            while size := int(self.rfile.readline(), 16):
                chunks.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            raw = b"".join(chunks)
        else:
            raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        return gzip.decompress(raw) if self.headers.get("Content-Encoding") == "gzip" else raw

    def send_json(self, value: Json, status: int = 200) -> None:
        """Send a JSON document."""
        self._send(status, json.dumps(value).encode(), "application/json")

    def send_events(self, events: Iterable[tuple[str, Json | str]]) -> None:
        """Send server-sent events."""
        lines = []
        for name, data in events:
            text = data if isinstance(data, str) else json.dumps(data)
            lines.append((f"event: {name}\n" if name else "") + f"data: {text}\n\n")
        self._send(200, "".join(lines).encode(), "text/event-stream")

    def _send(self, status: int, body: bytes, content_type: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
