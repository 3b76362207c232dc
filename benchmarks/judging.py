"""Cost and throughput of judge calls in the server: `python -m benchmarks.judging`.

A server with its default settings judges spans by a rule, over one connection to a model that runs in a process of its
own and answers at once, or after a second, at next to no cost. The CPU is that of all processes of the server, the
ingest of the judged spans included; it is counted once some calls were made, for which processes start and modules
load.
The ideal is the rate of a model that takes this long with this many requests under way. The measured rate is that
between the first and the last tenth of the calls, in which fewer requests are under way.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from benchmarks.generator import ROOT
from benchmarks.machine import describe
from benchmarks.server import Server, tracejury
from tests.serving import PROTOBUF, an_export

WAIT_S: Final = 600.0
LOOK_S: Final = 1.0  # it costs the server as much as some calls
SPANS: Final = 500  # in a request, and in a trace
WARM_UP: Final = 100
VERDICT: Final = {"score": 0.9, "reason": "The answer is polite and to the point."}
BODY: Final = json.dumps(
    {
        "model": "scripted-1",
        "choices": [{"message": {"role": "assistant", "content": json.dumps(VERDICT)}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 20},
    }
).encode()
ANSWER: Final = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(BODY), BODY)
RULE: Final[dict[str, Any]] = {
    "name": "polite",
    "criteria": "Is the answer polite?",
    "connectionId": "model",
    "config": {"evaluationParams": ["ACTUAL_OUTPUT"]},
    "conditions": [{"field": "span_type", "op": "=", "value": "llm"}],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """Judge calls over one connection."""

    takes_s: float  # the model, for each
    in_flight: int
    calls: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """Result of a trial."""

    tried: Tried
    per_s: float
    cpu_s: float

    def row(self) -> str:
        """Return the line of a table."""
        tried = self.tried
        per_s = self.per_s
        ideal = f"{per_s * tried.takes_s / tried.in_flight:.0%}" if tried.takes_s else "-"
        return (
            f"| {tried.takes_s:g} | {tried.in_flight} | {tried.calls:,} | {per_s * 60:,.0f} | {ideal} "
            f"| {self.cpu_s / tried.calls * 1000:.2f} |"
        )


def main() -> None:
    """Judge, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=10_000, help="over each connection, at most")
    parser.add_argument("--model", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.model is not None:
        _serve_model(options.model)
        return
    print("| the model takes, s | inFlight | calls | calls/min | of the ideal | CPU ms a call |")
    print("|--:|--:|--:|--:|--:|--:|", flush=True)
    with tempfile.TemporaryDirectory(prefix="tracejury-judging-") as folder:
        for takes_s, in_flight, most in (
            (0.0, 8, 10_000),
            (0.0, 64, 10_000),
            (1.0, 2, 60),
            (1.0, 8, 300),
            (1.0, 64, 2_000),
        ):
            tried = Tried(takes_s=takes_s, in_flight=in_flight, calls=min(options.calls, most))
            print(measure(Path(folder) / f"{takes_s:g}-{in_flight}", tried).row(), flush=True)
        print(describe(Path(folder)))


def measure(folder: Path, tried: Tried) -> Judged:
    """Have the spans of a trial judged by a server of their own."""
    folder.mkdir()
    with _model(tried.takes_s) as url:
        connection = {
            "baseUrl": url,
            "model": "scripted",
            "protocol": "CHAT_COMPLETIONS",
            "price": {"inputUsdPerMillion": 1, "outputUsdPerMillion": 1},
            "limits": {"inFlight": tried.in_flight},
        }
        config = folder / "config.yaml"
        config.write_text(json.dumps({"llm_connections": {"model": connection}}))
        command = [*tracejury(folder / "data"), "--config", str(config)]
        with Server(command, folder / "data") as server, httpx.Client(base_url=server.api, timeout=60) as client:
            client.post("/api/v1/projects/shop/trace-eval-rules", json=RULE).raise_for_status()
            _send(server, tried.calls, WARM_UP)
            _wait(client, WARM_UP)
            before_s = server.all_cpu_s()
            for first in range(0, tried.calls, SPANS):
                _send(server, first, min(SPANS, tried.calls - first))
            (began_s, began) = _wait(client, WARM_UP + tried.calls // 10)
            (ended_s, ended) = _wait(client, WARM_UP + tried.calls * 9 // 10)
            _wait(client, WARM_UP + tried.calls)
            cpu_s = server.all_cpu_s() - before_s
            server.stop()
    return Judged(tried=tried, per_s=(ended - began) / (ended_s - began_s), cpu_s=cpu_s)


def _send(server: Server, first: int, spans: int) -> None:
    """Calls of a model that ended a moment ago, in one trace."""
    now_s = int(time.time())
    export = an_export(f"{first + 1:032x}", *(f"call {number}" for number in range(spans)))
    for span in export.resource_spans[0].scope_spans[0].spans:
        span.start_time_unix_nano, span.end_time_unix_nano = now_s * 10**9, (now_s + 1) * 10**9
        attributes = {"gen_ai.operation.name": "chat", "output.value": f"{span.name}: Gladly, with pleasure. " * 20}
        for key, text in attributes.items():
            span.attributes.add(key=key).value.string_value = text
    url, headers = f"http://{server.target('http')}/v1/traces", {"content-type": PROTOBUF}
    httpx.post(url, content=export.SerializeToString(), headers=headers).raise_for_status()


def _wait(client: httpx.Client, results: int) -> tuple[float, int]:
    """Wait for `results` results; return the time, and their number."""
    until_s = time.monotonic() + WAIT_S
    while time.monotonic() < until_s:
        lines = client.get("/metrics").text.splitlines()
        line = next((line for line in lines if line.startswith("tracejury_results_total")), "0 0")
        if (results_now := int(float(line.split()[-1]))) >= results:
            return time.monotonic(), results_now
        time.sleep(LOOK_S)
    raise RuntimeError(f"there were no {results} results within {WAIT_S:g} s")


@contextmanager
def _model(takes_s: float) -> Iterator[str]:
    command = [sys.executable, "-m", "benchmarks.judging", "--model", str(takes_s)]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


def _serve_model(takes_s: float) -> None:
    asyncio.run(_answer_all(takes_s))


async def _answer_all(takes_s: float) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Model(takes_s), "127.0.0.1", 0, backlog=512)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await asyncio.to_thread(sys.stdin.read)


class _Model(asyncio.Protocol):
    """A connection on which each request is answered alike, after a while."""

    def __init__(self, takes_s: float) -> None:
        self._takes_s = takes_s
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, end, body = self._received.partition(b"\r\n\r\n")
        if end and len(body) >= int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]):
            self._received = b""
            asyncio.get_running_loop().call_later(self._takes_s, self._transport.write, ANSWER)


if __name__ == "__main__":
    main()
