"""HTTP clients for models: connections of its own, or the package if the environment names a proxy."""

import asyncio
import gzip
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeAlias, TypeVar

import pytest

from evaluators.chat.answering import ANSWER_BYTES, ERROR_BYTES, EndpointUnreachable, ErrorStatus, RequestProgress
from evaluators.chat.connection import ModelConnection
from evaluators.chat.direct import DirectTransport
from evaluators.chat.exchange import Exchange
from evaluators.chat.wire import UnexpectedResponse
from tests.certificates import a_certificate
from tests.wire_server import WireServer, a_wire_server

Result = TypeVar("Result")
Use: TypeAlias = Callable[[WireServer, Exchange], Awaitable[Result]]

OK = b'HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n{"fine": 1}'
FINE = {"fine": 1}
SMALLER = gzip.compress(b'{"fine": 1}', mtime=0)


@pytest.fixture(params=["direct", "proxied"])
def way(request: pytest.FixtureRequest) -> str:
    """Return how requests reach the endpoint."""
    return str(request.param)


def used(
    answers: Sequence[bytes],
    use: Use[Result],
    monkeypatch: pytest.MonkeyPatch | None = None,
    *,
    way: str = "direct",
    closes: bool = False,
) -> Result:
    """Use an endpoint that responds like this; if it is proxied, the server is the proxy too."""

    async def run() -> Result:
        async with a_wire_server(answers, closes=closes) as server:
            url = f"http://127.0.0.1:{server.port}/v1"
            if way == "proxied":
                assert monkeypatch is not None
                monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{server.port}")
                monkeypatch.delenv("no_proxy", raising=False)
                monkeypatch.delenv("NO_PROXY", raising=False)
            exchange = Exchange(ModelConnection(base_url=url, model="m", protocol="CHAT_COMPLETIONS"))
            try:
                return await use(server, exchange)
            finally:
                await exchange.close()

    return asyncio.run(run())


async def sends(server: WireServer, exchange: Exchange) -> tuple[object, RequestProgress]:
    """Send one request."""
    del server
    trip = RequestProgress()
    return await exchange.send(b'{"asks": "\xc3\xa9"}', trip), trip


async def fails(server: WireServer, exchange: Exchange) -> Exception:
    """Send a request that is not answered."""
    with pytest.raises((ErrorStatus, UnexpectedResponse, EndpointUnreachable)) as raised:
        await sends(server, exchange)
    return raised.value


def test_a_request_has_our_headers_and_its_body(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """Either client sends the endpoint the same headers and an equal body; a proxy gets the destination."""

    async def use(server: WireServer, exchange: Exchange) -> tuple[str, bytes, int, RequestProgress]:
        document, trip = await sends(server, exchange)
        assert document == FINE
        return server.heads[0], server.bodies[0], server.port, trip

    head, body, port, trip = used([OK], use, monkeypatch, way=way)
    first, *lines = head.split("\r\n")[:-2]
    assert (
        first
        == {
            "direct": "POST /v1/chat/completions HTTP/1.1",
            "proxied": f"POST http://127.0.0.1:{port}/v1/chat/completions HTTP/1.1",
        }[way]
    )
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    hops = {"connection", "proxy-connection", "content-length", "x-stainless-raw-response"}
    assert {name: value for name, value in headers.items() if name not in hops} == {
        "host": f"127.0.0.1:{port}",
        "user-agent": "tracejury-judge",
        "accept": "application/json",
        "accept-encoding": "identity",
        "content-type": "application/json",
    }
    assert body.replace(b" ", b"") == '{"asks":"é"}'.encode()
    assert trip.left


@pytest.mark.parametrize("name,value", [("no_proxy", "127.0.0.1"), ("https_proxy", "http://127.0.0.1:9")])
def test_a_proxy_for_others_is_not_asked(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    """A proxy for another scheme, or for an excepted address, is not used."""
    if name == "no_proxy":
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv(name, value)
    document, _ = used([OK], sends)
    assert document == FINE


def test_an_error_is_told_with_its_headers(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """Status, headers by lower-case names, and the body come along."""
    answer = b"HTTP/1.1 429 Slow\r\nRetry-After: 7\r\nContent-Length: 2\r\n\r\nno"
    error = used([answer], fails, monkeypatch, way=way)
    assert isinstance(error, ErrorStatus)
    assert (error.status, error.headers["retry-after"], error.body) == (429, "7", b"no")


def test_an_error_is_read_so_far(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """Of a long error no more is kept than is worth showing."""
    answer = b"HTTP/1.1 500 No\r\nContent-Length: 9999999\r\n\r\n" + b"x" * (2 * ERROR_BYTES)
    error = used([answer], fails, monkeypatch, way=way)
    assert isinstance(error, ErrorStatus)
    assert error.body == b"x" * ERROR_BYTES


@pytest.mark.parametrize("length", [b"Content-Length: 9999999", b"Transfer-Encoding: chunked"])
def test_an_answer_is_read_so_far(monkeypatch: pytest.MonkeyPatch, way: str, length: bytes) -> None:
    """An answer that is too long is none, however it is sent."""
    body = b" " * (ANSWER_BYTES + 1)
    if b"chunked" in length:
        body = b"%x\r\n%b\r\n" % (len(body), body)
    error = used([b"HTTP/1.1 200 OK\r\n" + length + b"\r\n\r\n" + body], fails, monkeypatch, way=way)
    assert isinstance(error, UnexpectedResponse)


@pytest.mark.parametrize("answer", [b"", OK[:-1], b"HTTP/1.1 200", b"\x00\xff not http\r\n\r\n"])
def test_what_ends_half_way_is_unreachable(monkeypatch: pytest.MonkeyPatch, way: str, answer: bytes) -> None:
    """Nothing, half an answer and garbage are not answers."""
    assert isinstance(used([answer], fails, monkeypatch, way=way, closes=True), EndpointUnreachable)


@pytest.mark.parametrize(
    "answer",
    [
        b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"fin\r\n6\r\ne": 1}\r\n0\r\n\r\n',
        b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n{"fine": 1}\r\n0\r\nContent-Encoding: gzip\r\n\r\n',
        b'HTTP/1.1 200 OK\r\n\r\n{"fine": 1}',
        b'HTTP/1.0 200 OK\r\nConnection: close\r\n\r\n{"fine": 1}',
        b"HTTP/1.1 103 Hints\r\nLink: x\r\n\r\n" + OK,
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b" % (len(SMALLER), SMALLER),
    ],
)
def test_an_answer_is_read_however_it_is_sent(monkeypatch: pytest.MonkeyPatch, way: str, answer: bytes) -> None:
    """In chunks, with trailers, up to the end of the connection, after a 103, or compressed although not asked for."""
    document, _ = used([answer], sends, monkeypatch, way=way, closes=True)
    assert document == FINE


def test_what_is_small_until_it_is_unpacked_has_the_same_bound(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """A compressed answer is not unpacked beyond the bound."""
    bomb = gzip.compress(b" " * (64 * ANSWER_BYTES))
    answer = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b" % (len(bomb), bomb)
    assert isinstance(used([answer], fails, monkeypatch, way=way), UnexpectedResponse)


def test_a_head_has_a_bound() -> None:
    """A head without an end is cut off."""
    error = used([b"HTTP/1.1 200 OK\r\n" + b"X-More: and more\r\n" * 10_000], fails)
    assert isinstance(error, UnexpectedResponse)


def test_a_connection_is_kept() -> None:
    """Requests one after another share a connection, errors included; each sees its own answer."""
    no = b"HTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\nno"

    async def use(server: WireServer, exchange: Exchange) -> int:
        for _ in range(3):
            assert (await sends(server, exchange))[0] == FINE
            assert isinstance(await fails(server, exchange), ErrorStatus)
        return server.connections

    assert used([OK, no] * 3, use) == 1


@pytest.mark.parametrize(
    "answer,closes",
    [
        (OK.replace(b"200 OK", b"200 OK\r\nConnection: close"), False),
        (OK, True),
        (OK + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n1234", False),  # a response without a request
    ],
)
def test_a_connection_that_ended_or_says_too_much_is_not_used_again(answer: bytes, closes: bool) -> None:  # noqa: FBT001
    """The next request goes over a new one, and gets its own answer."""

    async def use(server: WireServer, exchange: Exchange) -> int:
        for _ in range(3):
            assert (await sends(server, exchange))[0] == FINE
            await asyncio.sleep(0.05)
        return server.connections

    assert used([answer], use, closes=closes) == 3


def test_a_connection_that_idled_for_long_is_not_used_again() -> None:
    """Its server may be closing it at this very moment."""

    async def run() -> tuple[int, int]:
        async with a_wire_server([OK]) as server:
            transport = DirectTransport(f"http://127.0.0.1:{server.port}/v1/x", {}, None)
            await asyncio.gather(*(transport.post(b"{}", RequestProgress()) for _ in range(3)))
            for connection in list(transport._idle)[:2]:
                connection.idle_since_s -= 60
            await transport.post(b"{}", RequestProgress())
            kept = len(transport._idle)
            transport._idle[0].idle_since_s -= 60
            await transport.post(b"{}", RequestProgress())
            await transport.close()
            return kept, server.connections

    assert asyncio.run(run()) == (1, 4)


def test_a_request_that_was_given_up_does_not_answer_the_next() -> None:
    """The connection of an abandoned request is closed."""
    half, rest = OK[:20], OK

    async def use(server: WireServer, exchange: Exchange) -> int:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await sends(server, exchange)
        assert (await sends(server, exchange))[0] == FINE
        return server.connections

    assert used([half, rest], use) == 2


def test_what_could_not_connect_never_left(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """A closed port, and a name that may not be resolved, are reported as never sent."""

    async def refuses(_: str) -> str:
        raise ValueError("it may not go there")

    async def run(connection: ModelConnection) -> tuple[str, bool]:
        exchange, trip = Exchange(connection), RequestProgress()
        with pytest.raises(EndpointUnreachable) as raised:
            await exchange.send(b"{}", trip)
        await exchange.close()
        return str(raised.value), trip.left

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
        if way == "proxied":
            monkeypatch.setenv("http_proxy", address)
        assert asyncio.run(run(ModelConnection(base_url=f"{address}/v1", model="m")))[1] is False
        outcome = asyncio.run(run(ModelConnection(base_url="http://x.example/v1", model="m", address_of=refuses)))
    assert outcome == ("ValueError: it may not go there", False)


def test_tls_asks_for_the_name_at_the_address_that_was_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The certificate is checked against the host of the URL, wherever the connection goes to."""
    key, certificate = a_certificate()
    (tmp_path / "both.pem").write_bytes(key + certificate)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "both.pem"))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "both.pem")
    requested: list[str] = []

    async def address_of(url: str) -> str:
        requested.append(url)
        return "127.0.0.1"

    async def run(host: str) -> object:
        async with a_wire_server([OK], tls=tls) as server:
            transport = DirectTransport(f"https://{host}:{server.port}/v1/x", {}, address_of)
            try:
                return await transport.post(b"{}", RequestProgress())
            finally:
                await transport.close()

    assert asyncio.run(run("localhost")) == b'{"fine": 1}'
    assert requested[0].startswith("https://localhost:")
    with pytest.raises(EndpointUnreachable, match=r"certificate|CERTIFICATE"):
        asyncio.run(run("somewhere-else.example"))
