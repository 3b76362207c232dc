"""Servers for tests: the real one in a thread, and one with scripted answers."""

import asyncio
import random
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import httpx
from click.testing import CliRunner, Result
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.app import Running, running
from collector.cli.main import main
from collector.settings import Settings
from tests.live import NO_TLS
from tests.prepared import prepare

START_NS = 1_795_255_200_000_000_000  # 2026-11-21T10:00:00Z
ANY_PORT = "127.0.0.1:0"
PROTOBUF = "application/x-protobuf"


def an_export(trace_id: str, *names: str, project: str = "shop", at_s: int = 0) -> ExportTraceServiceRequest:
    """Build a trace whose first span is the root of the others."""
    request = ExportTraceServiceRequest()
    resource_spans = request.resource_spans.add()
    for key, value in (("service.name", project), ("dokimos.project", project)):
        resource_spans.resource.attributes.add(key=key).value.string_value = value
    spans = resource_spans.scope_spans.add().spans
    for number, name in enumerate(names, start=1):
        span = spans.add(
            trace_id=bytes.fromhex(trace_id),
            span_id=number.to_bytes(8, "big"),
            parent_span_id=(1).to_bytes(8, "big") if number > 1 else b"",
            name=name,
            start_time_unix_nano=START_NS + at_s * 10**9 + number,
            end_time_unix_nano=START_NS + at_s * 10**9 + 5_000_000,
        )
        span.attributes.add(key="input.value").value.string_value = f"asked {name}"
    return request


@contextmanager
def a_server(data: Path, **more: Any) -> Iterator[Running]:
    """Yield the real server in a thread of its own, with more settings."""
    prepare(data)
    started: Future[Running] = Future()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def run() -> None:
        try:
            addresses = {"grpc": ANY_PORT, "otlp_http": ANY_PORT, "http": ANY_PORT}
            async with running(Settings.model_validate({"data": data} | addresses | more)) as server:
                started.set_result(server)
                await stop.wait()
        except BaseException as error:
            if not started.done():
                started.set_exception(error)
            raise

    thread = threading.Thread(target=loop.run_until_complete, args=(run(),))
    thread.start()
    try:
        yield started.result(timeout=30)
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(timeout=30)
        loop.close()


def post(url: str, body: bytes) -> None:
    """Send an export request."""
    with httpx.Client(trust_env=False, verify=NO_TLS, timeout=60) as client:
        client.post(url, content=body, headers={"content-type": PROTOBUF}).raise_for_status()


def run(*arguments: object, env: dict[str, str] | None = None) -> Result:
    """Run a command in this process."""
    result = CliRunner(env=env).invoke(main, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


class Answers(BaseHTTPRequestHandler):
    """A server that gives queued responses, and records its requests."""

    queue: ClassVar[list[tuple[int, dict[str, str], bytes]]] = []
    requests: ClassVar[list[tuple[str, str, bytes]]] = []

    def do_GET(self) -> None:
        """Answer with the next one; the last one stays."""
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        self.requests.append((self.path, self.headers.get("content-type") or "", body))
        status, headers, content = self.queue.pop(0) if len(self.queue) > 1 else self.queue[0]
        self.send_response(status)
        for name, value in {"content-length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self) -> None:
        """Answer as to GET."""
        self.do_GET()

    def do_PATCH(self) -> None:
        """Answer as to GET."""
        self.do_GET()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that the base class gave it
        """Say nothing."""


@contextmanager
def a_scripted_server() -> Iterator[str]:
    """Yield the URL of a server that is scripted by `Answers`."""
    Answers.queue.clear()
    Answers.requests.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def unused_port() -> int:
    """Return a port on which nothing listens, and which the system assigns to no other process."""
    for port in random.sample(range(10_000, 30_000), 100):  # systems give any port from 32,768 on, or 49,152
        with closing(socket.socket()) as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError
