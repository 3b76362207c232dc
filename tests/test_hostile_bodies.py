"""Bodies that cost more than they should, with any key: refused, without delaying others."""

import asyncio
import contextlib
import json
import logging
import socket
import threading
import time
import tracemalloc
from collections.abc import Callable, Coroutine, Iterator
from urllib.parse import parse_qsl

import httpx
import pytest
from fastapi import Request
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from collector.access.caller import Caller
from collector.access.permission import Permission, Requirements, Role
from collector.api.base.request_turns import BodyParser
from collector.api.serving import idempotency
from collector.api.serving.idempotency import Repetitions
from collector.web import visitor
from tests.live import PATIENCE_S
from tests.test_connections import an_api

pytestmark = pytest.mark.costly(
    "collector/access", "collector/api", "collector/listeners", "collector/mcp", "collector/web"
)

MIB = b" " * (1 << 20)
LARGE = b" " * 7_900_000 + b'{"sql": "SELECT 1"}'


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """Yield a client of a server without keys."""
    with an_api(tmp_path_factory.mktemp("data")) as (client, _):
        yield client


def raw(api: httpx.Client, head: str) -> socket.socket:
    """Return a connection on which a request began."""
    connection = socket.create_connection((api.base_url.host, api.base_url.port or 80), timeout=PATIENCE_S)
    host = f"\nhost: {api.base_url.netloc.decode()}"
    connection.sendall((head + host).replace("\n", "\r\n").encode() + b"\r\n\r\n")
    return connection


@pytest.mark.parametrize("path", ["/api/v1/scores", "/api/v1/sql", "/api/v1/datasets"])
def test_each_body_has_a_limit(api: httpx.Client, path: str) -> None:
    """The limit holds also for a body of undeclared length, and for callers that only send."""
    refused = api.post(path, content=(MIB for _ in range(9)), headers={"content-type": "application/json"})
    assert refused.status_code == 413


def test_a_form_that_needs_no_key_is_small(api: httpx.Client) -> None:
    """Signing in takes a key and a token, so its form has a smaller limit than others."""
    headers = {"content-type": "application/x-www-form-urlencoded"}
    assert api.post("/sign-in", content=b"key=" + b"%41" * 30_000, headers=headers).status_code == 413


@pytest.mark.parametrize("path, size, count", [("/api/v1/sql", 7_900_000, 12), ("/mcp", 900_000, 75)])
def test_bodies_share_one_budget(api: httpx.Client, path: str, size: int, count: int) -> None:
    """Of many unfinished bodies of one client, some are refused, and the others have all let go at their end."""
    head = f"POST {path} HTTP/1.1\ncontent-type: application/json\ncontent-length: {size + 100}"
    connections = []
    for _ in range(count):
        connection = raw(api, head)
        connection.sendall(b" " * size)
        connections.append(connection)
    send_until(api, 503)
    for connection in connections:
        connection.close()
    send_until(api, 200)


def send_until(api: httpx.Client, status: int) -> None:
    """Ask with a large body until this is the answer."""
    until_s = time.monotonic() + PATIENCE_S
    headers = {"content-type": "application/json"}
    while (answer := api.post("/api/v1/sql", content=LARGE, headers=headers)).status_code != status:
        assert time.monotonic() < until_s, answer.text
    assert (answer.headers.get("retry-after") == "1") is (status == 503)


def test_a_million_errors_are_told_in_few_words(api: httpx.Client) -> None:
    """The first errors are listed, and how many more there are; one may not be long either."""
    body = {"sql": "SELECT 1"} | {str(number): 0 for number in range(20_000)} | {"x" * 100_000: 0}
    refused = api.post("/api/v1/sql", json=body)
    assert refused.status_code == 400
    assert "the body has 20,001 errors" in refused.json()["detail"]
    refused = api.post("/api/v1/sql", json={"sql": "SELECT 1"} | {str(number): 0 for number in range(100)})
    assert "and 50 more" in refused.json()["detail"]
    assert len(refused.content) < 20_000


MANY = {
    "/api/v1/sql": '{"sql": [%s0]}',
    "/api/v1/scores": '{"scores": [%s{}]}',
    "/api/v1/datasets": '{"items": [%s{}]}',
    "/mcp": '{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": [%s0]}',
}


@pytest.mark.parametrize("path", MANY)
def test_a_body_has_a_limit_of_values(api: httpx.Client, path: str) -> None:
    """A small body that is parsed into very many objects is refused; texts may have as many commas."""
    values = 310_000 if path != "/mcp" else 60_000
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    many = MANY[path].replace("%s", "[],[{}]," * (values // 5))
    refused = api.post(path, content=many, headers=headers)
    assert refused.status_code == 413
    text = MANY[path].replace("%s", json.dumps('\\",[' * (values // 2)) + ",")
    read = api.post(path, content=text, headers=headers)
    assert read.status_code != 413


def test_large_bodies_are_parsed_in_a_thread_one_of_a_client_at_a_time() -> None:
    """Small ones are parsed at once, and a large one of another client does not wait for the rest of the first."""
    running: list[str] = []

    def parse(body: bytes) -> str:
        running.append(threading.current_thread().name.partition("_")[0])
        return f"{len(body)}"

    async def parse_all() -> list[str]:
        parser = BodyParser()
        requests = [a_request(key) for key in ("a", "a", "b")]
        large = [parser.parse(LARGE, each, parse) for each in requests]
        return await asyncio.gather(*large, parser.parse(b"1", requests[0], parse))

    assert asyncio.run(parse_all()) == [*[f"{len(LARGE)}"] * 3, "1"]
    assert sorted(running) == ["MainThread", "bodies", "bodies", "bodies"]


def a_request(key: str) -> Request:
    """Build a request with this key."""
    caller = Caller(role=Role.VIEWER, key_id=key)

    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    return Request({"type": "http", "headers": [], "state": {"caller": caller}}, receive)


@given(st.lists(st.sampled_from(["%", "%4", "%41", "+", "&", "=", "%c3%a4", "a", "\0"]), max_size=20).map("".join))
@settings(max_examples=200)
def test_forms_are_read_as_the_library_reads_them(form: str) -> None:
    """However its escapes lie in the pieces that are decoded."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(visitor, "_DECODED_AT_ONCE", 5)
        assert visitor._pairs(form.encode()) == parse_qsl(form, keep_blank_values=True)


def test_a_form_of_escapes_takes_little_memory() -> None:
    """Reading one takes a few times its size; the library takes 77 times as much."""
    content = b"key=" + b"%41" * 300_000
    tracemalloc.start()
    try:
        visitor._pairs(content)
        assert tracemalloc.get_traced_memory()[1] < 8 * len(content)
    finally:
        tracemalloc.stop()


def test_a_client_that_leaves_is_no_unexpected_failure(api: httpx.Client, caplog: pytest.LogCaptureFixture) -> None:
    """Half a body is not a line of the log."""
    with caplog.at_level(logging.INFO):
        for path in ("/api/v1/sql", "/api/v1/scores", "/sign-in", "/api/v1/datasets"):
            kind = "application/x-www-form-urlencoded" if path == "/sign-in" else "application/json"
            head = f"POST {path} HTTP/1.1\ncontent-type: {kind}\ncontent-length: 100"
            with raw(api, head) as connection:
                connection.sendall(b'{"a')
        for _ in range(5):
            api.get("/ready")
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_body_of_single_bytes_ends_its_connection(api: httpx.Client) -> None:
    """Each part costs a turn, so a body of very many very small ones is not read to its end."""
    head = "POST /api/v1/sql HTTP/1.1\ncontent-type: application/json\ntransfer-encoding: chunked"
    with raw(api, head) as connection:
        try:
            for _ in range(100):
                connection.sendall(b"1\r\n \r\n" * 1_000)
                time.sleep(0.01)
            answer = connection.recv(100)
        except (ConnectionResetError, BrokenPipeError):
            return
    assert not answer or answer.startswith(b"HTTP/1.1 400")


def test_a_client_that_leaves_the_protocol_is_no_failure(api: httpx.Client, caplog: pytest.LogCaptureFixture) -> None:
    """Half a message is not a line of the log, though the protocol has an application of its own."""
    headers = {"accept": "application/json, text/event-stream"}
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    assert api.post("/mcp", json=ping, headers=headers).status_code == 200
    head = "POST /mcp HTTP/1.1\naccept: application/json, text/event-stream\ncontent-type: application/json"
    with caplog.at_level(logging.WARNING):
        for _ in range(20):
            with raw(api, f"{head}\ncontent-length: 100") as connection:
                connection.sendall(b'{"a')
        for _ in range(5):
            api.post("/mcp", json=ping, headers=headers)
    assert not caplog.records


REFUSED = {
    "a page": "POST /sign-in HTTP/1.1\ncontent-type: application/json",
    "the API": "POST /api/v1/sql HTTP/1.1\ncontent-type: text/plain",
    "no route": "POST /api/v1/nothing HTTP/1.1\ncontent-type: text/plain",
    "the protocol": "PUT /mcp HTTP/1.1",
}


@pytest.mark.parametrize("head", REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("size", [65, 1 << 20])
def test_a_body_without_end_is_not_read_after_its_answer(api: httpx.Client, head: str, size: int) -> None:
    """A connection ends if its body goes on after the answer, which is the only one that it gets."""
    part = (b"%x\r\n" % size + b" " * size + b"\r\n") * ((1 << 20) // size)
    with raw(api, f"{head}\ntransfer-encoding: chunked") as connection:
        answer = connection.recv(1 << 16)
        assert answer.startswith(b"HTTP/1.1 4")
        with pytest.raises(OSError):  # noqa: PT011 - a reset or a broken pipe
            connection.sendall(part * 200)
        with contextlib.suppress(ConnectionResetError):
            while more := connection.recv(1 << 16):
                answer += more
    assert answer.count(b"HTTP/1.1") == 1


def test_the_answer_to_a_large_body_reaches_a_client_that_sends_first(api: httpx.Client) -> None:
    """The rest of a body of 40 MiB is received, so that the client learns its limit, and its connection serves on."""
    for _ in range(2):
        refused = api.post("/api/v1/sql", content=MIB * 40, headers={"content-type": "application/json"})
        assert refused.status_code == 413


def test_the_rest_of_a_body_costs_no_connection(api: httpx.Client) -> None:
    """The connection of a body that was refused early serves the next request."""
    with raw(api, "POST /api/v1/sql HTTP/1.1\ncontent-type: text/plain\ncontent-length: 500000") as connection:
        answer = connection.recv(1 << 16)
        connection.sendall(b" " * 500_000 + b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
        while answer.count(b"HTTP/1.1") < 2:
            more = connection.recv(1 << 16)
            assert more
            answer += more
    assert answer.startswith(b"HTTP/1.1 415")
    assert b"HTTP/1.1 200" in answer


Ask = Callable[[str, int], Coroutine[None, None, None]]


def repeating(answer: bytes) -> tuple[Repetitions, list[str], Ask]:
    """Return stored requests, the paths of those that were made, and a request with an `Idempotency-Key`."""
    made: list[str] = []

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        made.append(scope["path"])
        await Response(answer, status_code=201)(scope, receive, send)

    repetitions = Repetitions(application)

    async def ask(key_id: str, key: int) -> None:
        async def receive() -> Message:
            return {"type": "http.request", "body": b"{}"}

        async def send(_message: Message) -> None:
            return None

        state = {"need": Requirements(permission=Permission.WRITE), "caller": Caller(role=Role.EDITOR, key_id=key_id)}
        headers = [(b"idempotency-key", str(key).encode())]
        scope = {"type": "http", "method": "POST", "path": "/", "headers": headers, "state": state}
        await repetitions(scope, receive, send)

    return repetitions, made, ask


def test_what_is_remembered_for_all_callers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the limit of bytes the callers with most lose their oldest answers, and others keep theirs."""
    monkeypatch.setattr(idempotency, "_MOST_BYTES", 1 << 20)
    repetitions, made, ask = repeating(b" " * (60 << 10))

    async def ask_all() -> None:
        await ask("a", 0)
        for key_id in ("b", "c"):
            for key in range(30):
                await ask(key_id, key)
        assert sum(repetitions._held.values()) <= 1 << 20
        assert sum(map(len, repetitions._callers.values())) == 16
        await ask("a", 0)

    asyncio.run(ask_all())
    assert len(made) == 61


def test_keys_of_one_caller_push_out_none_of_another() -> None:
    """A thousand requests that may be repeated are remembered for each caller."""
    _, made, ask = repeating(b"1")

    async def ask_all() -> list[int]:
        counts = []
        rounds = [("a", range(1)), ("b", range(1_001)), ("a", range(1)), ("b", range(1, 1_001)), ("b", range(1))]
        for key_id, keys in rounds:
            for key in keys:
                await ask(key_id, key)
            counts.append(len(made))
        return counts

    assert asyncio.run(ask_all()) == [1, 1_002, 1_002, 1_002, 1_003]
