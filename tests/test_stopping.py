"""The server ends on SIGTERM whatever its workers wait for: each kind waits, for an endpoint of each unhelpful kind."""

import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.forking import run
from tests.live import ANY_PORTS, Live, a_client, a_live_server, until
from tests.offline import Offline
from tests.traffic import a_batch, over_http

pytestmark = pytest.mark.costly(
    "collector/children",
    "collector/cli/serve.py",
    "collector/closable_exporter.py",
    "collector/delivery",
    "collector/listeners",
    "collector/exporters",
    "collector/live",
    "collector/self_tracing.py",
    "collector/quack",
    "evaluators",
)

STOPS_WITHIN_S = 10.0
"""The promised time for a stop; usually it takes two seconds."""

JUDGE = "{name: judged, evaluator: llm_judge, criteria: It is good., connectionId: local}"
CHECK = "{name: checked, evaluator: tool_error}"
CODE = "{name: programmed, evaluator: code_judge, config: {script: [python3, SCRIPT], timeLimitSeconds: 99, reads: []}}"
HOLDS_THE_GIL = """
import ctypes
from collector import program
program._end_within(0.1, 1)
ctypes.PyDLL(None).sleep(600)
"""
SLEEPS = """
import pathlib, time
pathlib.Path(__file__).with_suffix(".began").touch()
time.sleep(600)
"""


class Unhelpful(ThreadingHTTPServer):
    """An endpoint that treats each request as `act` does; `requests` counts them by path."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, act: "Callable[[_Handler], None]") -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.act = act
        self.requests: Counter[str] = Counter()
        self.stopping = threading.Event()

    @property
    def url(self) -> str:
        """Return the base URL."""
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that end."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: Unhelpful
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.requests[self.path] += 1
        self.close_connection = True
        self.server.act(self)

    def log_message(self, *_: object) -> None:
        pass


def hang(handler: _Handler) -> None:
    """Answer nothing."""
    handler.server.stopping.wait()


def drip_head(handler: _Handler) -> None:
    """Answer with a head that goes on byte by byte."""
    _drip(handler, b"HTTP/1.1 200 OK\r\nX: ")


def drip_body(handler: _Handler) -> None:
    """Answer with a body that goes on byte by byte."""
    _drip(handler, b"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 1000000\r\n\r\n")


def ask_for_an_hour(handler: _Handler) -> None:
    """Ask for a long pause."""
    handler.send_response(429)
    handler.send_header("Retry-After", "3600")
    handler.send_header("Content-Length", "0")
    handler.end_headers()


def _drip(handler: _Handler, head: bytes) -> None:
    handler.wfile.write(head)
    while not handler.server.stopping.wait(0.2):
        handler.wfile.write(b" ")


@contextmanager
def an_endpoint(act: Callable[[_Handler], None]) -> Iterator[Unhelpful]:
    """Yield such an endpoint."""
    server = Unhelpful(act)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.stopping.set()
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def a_server_with(
    folder: Path, endpoint: Unhelpful, rules: Mapping[str, str], *, forked: bool = True
) -> Iterator[Live]:
    """Start a server whose judge, receiver of alerts, results and own traces is that endpoint."""
    (folder / "rules").mkdir()
    (folder / "sleeps.py").write_text(SLEEPS)
    for name, text in rules.items():
        (folder / "rules" / f"{name}.yaml").write_text(text.replace("SCRIPT", str(folder / "sleeps.py")))
    connection = {"baseUrl": f"{endpoint.url}/v1", "model": "judge-1", "protocol": "CHAT_COMPLETIONS"}
    settings = {
        "rules": str(folder / "rules"),
        "llm_connections": {"local": connection},
        "webhook_private_hosts": ["127.0.0.0/8"],
        "alert_webhooks": [{"project": "shop", "url": f"{endpoint.url}/hook"}],
        "results_endpoint": f"{endpoint.url}/v1/logs",
        "own_traces_endpoint": f"{endpoint.url}/v1/traces",
    }
    config = folder / "config.yaml"
    config.write_text(yaml.safe_dump(settings))
    with a_live_server(folder / "data", flags=(*ANY_PORTS, "--config", str(config)), forked=forked) as server:
        yield server


def a_judged_run(api: Offline, **body: Any) -> str:
    """Build a run of one item that has ended, and an evaluator that was asked about it."""
    run = api.begin()
    api.report(run, {"itemKey": "a", "inputs": {"input": "2+2?"}, "actualOutputs": {"output": "4"}})
    api.end(run)
    api.ask("POST", f"runs/{run}/evaluations", 201, json=body)
    return run


def keep_all_busy(server: Live, folder: Path, endpoint: Unhelpful, stack: ThreadPoolExecutor) -> None:
    """Let each kind of worker wait for the endpoint, or for its program."""
    with a_client() as client:
        api = Offline(server.http, client)
        a_judged_run(api, evaluatorName="Quality", criteria="Is it right?", connectionId="local")
        (webhook,) = api.ask("GET", "projects/shop/alert-webhooks")
        api.ask("POST", f"projects/shop/alert-webhooks/{webhook['id']}/test", 202)
        with over_http(server) as send:
            assert send(a_batch(random.Random(1), 20).body).kind == "taken"
        attributes = {"messages": [{"role": "user", "parts": [{"type": "text", "content": "?"}]}]}
        (connection,) = api.ask("GET", "llm-connections")
        attributes["answers"] = [{"connectionId": connection["id"]}] * 3
    for path in ("playground",) * 4 + (f"llm-connections/{connection['id']}/test",) * 2:
        stack.submit(httpx.post, f"{server.http}/api/v1/{path}", json=attributes, timeout=60, trust_env=False)
    busy_paths = {"/hook", "/v1/logs", "/v1/traces", "/v1/chat/completions"}
    until(lambda: set(endpoint.requests), lambda paths: paths >= busy_paths)
    until((folder / "sleeps.began").exists, bool)


@pytest.mark.parametrize("act", [hang, drip_head, drip_body, ask_for_an_hour])
def test_sigterm_ends_a_server_whose_workers_wait(tmp_path: Path, act: Callable[[_Handler], None]) -> None:
    """Judges, programs, runs, questions of clients, webhooks, results and own traces under way do not delay its end."""
    rules = {"judged": JUDGE, "checked": CHECK, "programmed": CODE}
    with (
        an_endpoint(act) as endpoint,
        ThreadPoolExecutor(6) as asking,
        a_server_with(tmp_path, endpoint, rules, forked=act is not hang) as server,  # one ends as an interpreter does
    ):
        keep_all_busy(server, tmp_path, endpoint, asking)
        assert server.stop(within_s=STOPS_WITHIN_S) == 0
        assert "Traceback" not in server.log


def test_sigterm_ends_a_server_whose_tool_waits_for_a_judge(tmp_path: Path) -> None:
    """A call over `/mcp` that waits for an evaluation is answered 503, and leaves no traceback."""
    with (
        an_endpoint(hang) as endpoint,
        ThreadPoolExecutor(1) as asking,
        a_server_with(tmp_path, endpoint, {}) as server,
    ):
        with a_client() as client:
            api = Offline(server.http, client)
            connection = {"name": "paid", "baseUrl": f"{endpoint.url}/v1", "model": "m", "protocol": "CHAT_COMPLETIONS"}
            api.ask("POST", "llm-connections", 201, json=connection | {"budget": {"callsPerDay": 9}})
            run = api.begin()
            api.report(run, {"itemKey": "a", "inputs": {"input": "2+2?"}, "actualOutputs": {"output": "4"}})
            api.end(run)
        tool = {"run_id": run, "evaluator": "llm_judge", "criteria": "Is it right?", "connection": "paid"}
        call = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "evaluate_run", "arguments": tool},
        }
        headers = {"accept": "application/json, text/event-stream"}
        waiting = asking.submit(
            httpx.post, f"{server.http}/mcp", json=call, headers=headers, timeout=60, trust_env=False
        )
        until(lambda: endpoint.requests["/v1/chat/completions"], bool)
        assert server.stop(within_s=STOPS_WITHIN_S) == 0
        assert "Traceback" not in server.log
        assert waiting.result().status_code == 503


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_it_at_once(tmp_path: Path, second: signal.Signals) -> None:
    """While a stop waits for a stalled request, another SIGTERM or Ctrl-C ends the process by that signal."""
    let_go = threading.Event()

    def stalled() -> Iterator[bytes]:
        yield b" "
        let_go.wait()

    with (
        a_live_server(tmp_path / "data", env={"TRACEJURY_SHUTDOWN_SECONDS": 3600}) as server,
        ThreadPoolExecutor(1) as asking,
        a_client() as client,
    ):
        posting = asking.submit(client.post, f"{server.http}/api/v1/traces", content=stalled())
        time.sleep(0.5)
        server.process.send_signal(signal.SIGTERM)
        until(lambda: "stopping" in server.log, bool)
        assert server.stop(second, within_s=STOPS_WITHIN_S) == -second
        let_go.set()
        posting.exception()


def test_a_stop_ends_although_a_thread_holds_the_gil() -> None:
    """Code that never releases the GIL is ended, too, and the last output says where it was."""
    done = run([sys.executable, "-c", HOLDS_THE_GIL], timeout=60)
    assert done.returncode == 1
    assert "Timeout" in done.stderr
    assert "in <module>" in done.stderr


def test_a_judge_that_asks_for_an_hour_holds_up_no_other_run(tmp_path: Path) -> None:
    """Runs that need no judge, or another one, are scored meanwhile; a restart keeps the pause."""
    with an_endpoint(ask_for_an_hour) as endpoint:
        with a_server_with(tmp_path, endpoint, {}) as server, a_client() as client:
            api = Offline(server.http, client)
            paused = a_judged_run(api, evaluatorName="Quality", criteria="Is it right?", connectionId="local")
            until(lambda: endpoint.requests["/v1/chat/completions"], bool)
            checked = a_judged_run(api, evaluator="exact_match")
            until(lambda: api.ask("GET", f"runs/{checked}")["status"], lambda status: status == "SUCCESS")
            (waiting,) = until(
                lambda: api.ask("GET", f"runs/{paused}/evaluations"),
                lambda evaluations: bool(evaluations[0]["lastError"]),
            )
            assert waiting["status"] == "RUNNING"
            assert "the next attempt is in 3600 s" in waiting["lastError"]
            assert server.stop(within_s=STOPS_WITHIN_S) == 0
        request_count = endpoint.requests["/v1/chat/completions"]
        config = str(tmp_path / "config.yaml")
        with a_live_server(tmp_path / "data", flags=(*ANY_PORTS, "--config", config)) as server, a_client() as client:
            api = Offline(server.http, client)
            checked = a_judged_run(api, evaluator="exact_match")
            until(lambda: api.ask("GET", f"runs/{checked}")["status"], lambda status: status == "SUCCESS")
            assert api.ask("GET", f"runs/{paused}")["status"] == "EVALUATING"
            assert endpoint.requests["/v1/chat/completions"] == request_count
            assert api.ask("GET", f"runs/{paused}/evaluations")[0]["status"] == "RUNNING"
