"""Answers that clients do not read are counted by client, written in slices, and refused beyond their room."""

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

import pytest
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Message

from collector.listeners.response_buffer import (
    SLICE_BYTES,
    STREAM_BYTES,
    BufferedResponse,
    Refused,
    ResponseBufferLimit,
)
from tests.access import Closed, a_closed_server
from tests.live import PATIENCE_S, until

MIB: Final = 1 << 20
LIMIT: Final = 16 * MIB
ROWS: Final = 5  # of a megabyte
STATEMENT: Final = {"sql": f"SELECT repeat('a', 1000000) AS text FROM range({ROWS})"}
SMALL: Final = {"sql": "SELECT 1"}


@pytest.fixture(name="server", scope="module")
def _server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Closed]:
    with a_closed_server(tmp_path_factory.mktemp("answers"), answer_bytes=LIMIT) as server:
        yield server


def ask_without_reading(stack: ExitStack, server: Closed, key: str, path: str, body: object = None) -> socket.socket:
    """Send a request over a connection whose client reads nothing until its test does."""
    host, _, port = server.running.http.rpartition(":")
    client = stack.enter_context(socket.socket())
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(PATIENCE_S)
    client.connect((host, int(port)))
    content = b"" if body is None else json.dumps(body).encode()
    head = (
        f"{'GET' if body is None else 'POST'} {path} HTTP/1.1\r\nhost: {server.running.http}\r\nconnection: close\r\n"
    )
    head += f"accept: application/json, text/event-stream\r\nauthorization: Bearer {server.keys[key]}\r\n"
    head += f"content-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n"
    client.sendall(head.encode() + content)
    return client


@contextmanager
def filled(room: ResponseBufferLimit) -> Iterator[None]:
    """Fill the room during the block, for two other clients."""
    for client in ("one", "another"):
        room.take(client, LIMIT)
    try:
        yield
    finally:
        for client in ("one", "another"):
            room.take(client, -LIMIT)


def status_of(client: socket.socket) -> int:
    """Return the status of an answer, of which the rest stays unread."""
    return int(client.recv(12, socket.MSG_WAITALL)[9:])


def test_unread_answers_of_a_key_end_at_its_share(server: Closed) -> None:
    """Of eight large answers that are not read a key gets two, and small ones; another key gets a large one."""
    room = server.running.context.answers
    with ExitStack() as stack:
        clients = [ask_without_reading(stack, server, "viewer", "/api/v1/sql", STATEMENT) for _ in range(8)]
        assert sorted(map(status_of, clients)) == [200] * 2 + [503] * 6
        assert 2 * ROWS * 1_000_000 < room.held < LIMIT * 3 / 4
        responses = [
            server.ask("POST", "/api/v1/sql", key=server.keys["viewer"], json=each) for each in (STATEMENT, SMALL)
        ]
        assert [each.status_code for each in responses] == [503, 200]
        assert "9 MiB of answers to you" in responses[0].json()["detail"]
        assert responses[0].headers["retry-after"] == "5"
        assert server.ask("GET", "/traces", key=server.keys["editor"]).status_code == 200
        other = ask_without_reading(stack, server, "editor", "/api/v1/sql", {"sql": STATEMENT["sql"].replace("5", "3")})
        assert status_of(other) == 200
    assert until(lambda: room.held, lambda held: held == 0) == 0


def test_a_client_that_reads_slowly_gets_all_of_its_answer(server: Closed) -> None:
    """An answer in slices is complete and the same, and its room is free once it is written."""
    with ExitStack() as stack:
        client = ask_without_reading(stack, server, "viewer", "/api/v1/sql", STATEMENT)
        received = b"".join(iter(lambda: client.recv(100_000), b""))
    document = json.loads(received.partition(b"\r\n\r\n")[2])
    assert document["rows"] == [["a" * 1_000_000]] * ROWS
    assert server.running.context.answers.held == 0


def test_no_change_begins_without_room_for_its_answer(server: Closed) -> None:
    """A change of a key whose answers wait is refused before it is made, and made once they were given up."""

    def create() -> int:
        made = server.ask("POST", "/api/v1/datasets", key=server.keys["admin"], json={"name": "made later"})
        return made.status_code

    room = server.running.context.answers
    with filled(room):
        assert create() == 503
    assert create() == 201


def test_models_wait_for_room_too(server: Closed) -> None:
    """An answer of /mcp that has no room is 503, with the reason."""
    arguments = {"sql": "SELECT repeat('a', 1000) AS text FROM range(45)"}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "query_sql", "arguments": arguments}}
    headers = {"accept": "application/json, text/event-stream"}
    room = server.running.context.answers
    with filled(room):
        refused = server.ask("POST", "/mcp", key=server.keys["viewer"], json=call, headers=headers)
    answered = server.ask("POST", "/mcp", key=server.keys["viewer"], json=call, headers=headers)
    assert len(answered.content) > SLICE_BYTES
    assert (refused.status_code, answered.status_code) == (503, 200)
    assert "wait to be read" in refused.json()["error"]


class Sent:
    """Messages of an answer that passed the room, and how much of it was counted at each."""

    def __init__(self, room: ResponseBufferLimit, response: Response) -> None:
        self.messages: list[Message] = []
        self.held: list[int] = []
        self.reasons: list[str] = []
        self.is_cut = False
        self._room = room
        asyncio.run(self._call(response))

    async def _call(self, response: Response) -> None:
        answer = BufferedResponse(self._room, "client", self._send, self._refuse)
        request = Request({"type": "http", "method": "GET", "asgi": {"spec_version": "2.3"}}, self._receive)
        try:
            await response(request.scope, request.receive, answer.send)
        except Refused:
            self.is_cut = True
        finally:
            answer.let_go()

    async def _send(self, message: Message) -> None:
        self.messages.append(message)
        self.held.append(self._room.held)

    async def _refuse(self, why: str) -> None:
        self.reasons.append(why)

    async def _receive(self) -> Message:
        await asyncio.Event().wait()
        raise AssertionError


def test_a_body_is_written_in_slices_of_their_own() -> None:
    """Each slice is a copy, so that the last one does not keep the others, and all of a body counts until then."""
    room, body = ResponseBufferLimit(LIMIT), bytes(range(256)) * 1_024
    sent = Sent(room, Response(body))
    parts = [message["body"] for message in sent.messages[1:]]
    assert b"".join(parts) == body
    assert {type(part) for part in parts} == {bytes}
    assert [len(part) for part in parts] == [SLICE_BYTES] * 4
    assert [message.get("more_body", False) for message in sent.messages[1:]] == [True, True, True, False]
    assert set(sent.held) == {len(body)}
    assert room.held == 0


def test_a_stream_without_room_ends_before_its_second_piece() -> None:
    """A stream counts for what makes it; one that is refused is not made further, and one that has begun goes on."""
    made: list[int] = []

    def pieces() -> Iterator[bytes]:
        for number in range(4):
            made.append(number)
            yield b"x" * 10

    room = ResponseBufferLimit(LIMIT)
    sent = Sent(room, StreamingResponse(pieces()))
    assert set(sent.held) == {STREAM_BYTES}
    assert (len(made), room.held, sent.is_cut) == (4, 0, False)
    made.clear()
    with filled(room):
        refused = Sent(room, StreamingResponse(pieces()))
    assert (made, refused.messages, refused.is_cut) == ([0], [], True)
    assert "no room for 8 MiB more" in refused.reasons[0]


def test_one_answer_may_be_larger_than_all_room() -> None:
    """An answer that is alone is sent whatever its size, and leaves a part of the room to other clients only."""
    room = ResponseBufferLimit(LIMIT)
    assert room.lack("client", 4 * LIMIT) is None
    room.take("client", 4 * LIMIT)
    assert room.lack("client", 1)
    assert room.lack("another client", 3 * MIB) is None
    assert room.lack("another client", 4 * MIB)
