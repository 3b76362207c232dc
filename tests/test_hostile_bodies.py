"""Bodies that cost more than they should, whatever key is shown: refused, and nobody else waits."""

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import Iterator

import httpx
import pytest
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from collector.access.caller import Caller
from collector.access.permission import Need, Permission, Role
from collector.api.serving.repetition import Repetitions
from tests.live import PATIENCE_S
from tests.test_connections import an_api

MIB = b" " * (1 << 20)
LARGE = b" " * 7_900_000 + b'{"sql": "SELECT 1"}'


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of a server without keys."""
    with an_api(tmp_path_factory.mktemp("data")) as (client, _):
        yield client


def raw(api: httpx.Client, head: str) -> socket.socket:
    """A connection on which a request began."""
    connection = socket.create_connection((api.base_url.host, api.base_url.port or 80), timeout=PATIENCE_S)
    host = f"\nhost: {api.base_url.netloc.decode()}"
    connection.sendall((head + host).replace("\n", "\r\n").encode() + b"\r\n\r\n")
    return connection


@pytest.mark.parametrize("path", ["/api/v1/scores", "/api/v1/sql", "/api/v1/datasets"])
def test_each_body_has_a_limit(api: httpx.Client, path: str) -> None:
    """Also one whose length is not told, and for those who only send."""
    refused = api.post(path, content=(MIB for _ in range(9)), headers={"content-type": "application/json"})
    assert refused.status_code == 413


def test_a_form_that_needs_no_key_is_small(api: httpx.Client) -> None:
    """Signing in takes a key and a token, so its form has a smaller limit than others."""
    headers = {"content-type": "application/x-www-form-urlencoded"}
    assert api.post("/sign-in", content=b"key=" + b"%41" * 30_000, headers=headers).status_code == 413


def test_bodies_share_one_budget(api: httpx.Client) -> None:
    """Of many unfinished bodies of one client, some are refused, and the others have all let go at their end."""
    head = "POST /api/v1/sql HTTP/1.1\ncontent-type: application/json\ncontent-length: 8000000"
    connections = []
    for _ in range(12):
        connection = raw(api, head)
        connection.sendall(b" " * 7_900_000)
        connections.append(connection)
    asked_until(api, 503)
    for connection in connections:
        connection.close()
    asked_until(api, 200)


def asked_until(api: httpx.Client, status: int) -> None:
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


def test_a_client_that_leaves_is_no_unexpected_failure(api: httpx.Client, caplog: pytest.LogCaptureFixture) -> None:
    """Half a body is no line of the log."""
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
    """Half a message is no line of the log, though the protocol has an application of its own."""
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


def test_keys_of_one_caller_push_out_none_of_another() -> None:
    """A thousand requests that may be repeated are remembered for each caller."""
    made: list[str] = []

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        made.append(scope["path"])
        await Response(str(len(made)), status_code=201)(scope, receive, send)

    repetitions = Repetitions(application)

    async def ask(key_id: str, key: int) -> None:
        async def receive() -> Message:
            return {"type": "http.request", "body": b"{}"}

        async def send(_message: Message) -> None:
            return None

        state = {"need": Need(permission=Permission.WRITE), "caller": Caller(role=Role.EDITOR, key_id=key_id)}
        headers = [(b"idempotency-key", str(key).encode())]
        scope = {"type": "http", "method": "POST", "path": "/", "headers": headers, "state": state}
        await repetitions(scope, receive, send)

    async def ask_all() -> list[int]:
        counts = []
        rounds = [("a", range(1)), ("b", range(1_001)), ("a", range(1)), ("b", range(1, 1_001)), ("b", range(1))]
        for key_id, keys in rounds:
            for key in keys:
                await ask(key_id, key)
            counts.append(len(made))
        return counts

    assert asyncio.run(ask_all()) == [1, 1_002, 1_002, 1_002, 1_003]
