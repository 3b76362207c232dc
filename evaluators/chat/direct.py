"""HTTP/1.1 over connections of our own, directly on the socket.

A request through the openai package takes 2 ms of processor time, most of it for objects that are made and read again
on the way from one layer to the next.
"""

import asyncio
import ssl
import time
import zlib
from collections import deque
from collections.abc import Mapping
from typing import Final

import httptools
import httpx

from evaluators.chat.answering import (
    ANSWER,
    ANSWER_BYTES,
    ERROR_BYTES,
    FIRST_ERROR_STATUS,
    EndpointUnreachable,
    ErrorStatus,
    RequestProgress,
)
from evaluators.chat.connection import AddressOf
from evaluators.chat.wire import UnexpectedResponse
from storage.limit import Limit

_HEAD_BYTES: Final = 64 << 10
"""The most bytes of a response's head. A guess: servers send less than 8 KiB."""

_RAW_BYTES: Final = 8 * ANSWER_BYTES
"""The most bytes of a response with its chunk headers, which may be more than their contents. A guess."""

_HEAD: Final = Limit(value=_HEAD_BYTES, unit="bytes", remedy="let the server send fewer headers")
_RAW: Final = Limit(value=_RAW_BYTES, unit="bytes", remedy="let the server send larger chunks")

_IDLE_S: Final = 4.0
"""Idle time after which a connection is closed instead of reused: some servers close it after five seconds."""

_SECOND_ADDRESS_S: Final = 0.25
"""Delay after which a second address of a host is tried in parallel (happy eyeballs, RFC 8305)."""

_FIRST_FINAL_STATUS: Final = 200
_PORTS: Final = {"http": 80, "https": 443}
_INFLATED: Final = {"gzip": 31, "deflate": 15}  # some servers send these although the request asks for identity


class DirectTransport:
    """Implementation of `Transport` with keep-alive connections, each for one request at a time. For one event loop."""

    def __init__(self, url_text: str, headers: Mapping[str, str], address_of: AddressOf | None) -> None:
        """`headers` are sent with each request, `address_of` returns the address to connect to."""
        url = httpx.URL(url_text)
        self._url_text = url_text
        self._host = url.raw_host.decode("ascii")
        self._port = url.port or _PORTS[url.scheme]
        self._tls = _tls() if url.scheme == "https" else None
        fields = {"Host": url.netloc.decode("ascii"), **headers}
        lines = [
            f"POST {url.raw_path.decode('ascii')} HTTP/1.1",
            *(f"{name}: {value}" for name, value in fields.items()),
        ]
        self._head = "\r\n".join(lines).encode("ascii")
        self._address_of = address_of
        self._idle: deque[_Connection] = deque()  # most recently used last

    async def post(self, body: bytes, trip: RequestProgress) -> bytes:
        """Return the body of the answer. `trip` says afterwards how far the request came.

        Raises:
            UnexpectedResponse: the response is too large.
            ErrorStatus: the endpoint answered with an error.
            EndpointUnreachable: the connection failed, maybe half-way.

        """
        trip.left = False
        connection = self._kept() or await self._connected()
        trip.left = True
        try:
            return await connection.ask(b"%b\r\nContent-Length: %d\r\n\r\n%b" % (self._head, len(body), body))
        finally:
            if connection.is_free:
                connection.idle_since_s = time.monotonic()
                self._idle.append(connection)
            else:
                connection.abort()

    async def close(self) -> None:
        """Close all connections. Call it after the last response."""
        idle, self._idle = self._idle, deque()
        for connection in idle:
            connection.abort()
        for connection in idle:
            await connection.closed

    def _kept(self) -> "_Connection | None":
        """Return an idle connection, and close those that idled for too long."""
        oldest_s = time.monotonic() - _IDLE_S
        while self._idle and self._idle[0].idle_since_s < oldest_s:
            self._idle.popleft().abort()
        while self._idle:
            connection = self._idle.pop()
            if connection.is_free:
                return connection
        return None

    async def _connected(self) -> "_Connection":
        try:
            if self._address_of is None:
                address, delay_s = self._host, _SECOND_ADDRESS_S
            else:  # the address that was checked: the next DNS lookup may return another
                address, delay_s = await self._address_of(self._url_text), None
            _, connection = await asyncio.get_running_loop().create_connection(
                _Connection,
                address,
                self._port,
                ssl=self._tls,
                server_hostname=self._host if self._tls else None,
                happy_eyeballs_delay=delay_s,
            )
        except (ValueError, OSError) as error:
            raise EndpointUnreachable(f"{type(error).__name__}: {error}") from error
        return connection


class _Connection(asyncio.Protocol):
    """A connection. The size of a response is checked while it arrives."""

    def __init__(self) -> None:
        self.idle_since_s = 0.0
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport | None = None
        self._begin(None)

    def _begin(self, answer: "asyncio.Future[bytes] | None") -> None:
        self._answer = answer
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._body = bytearray()
        self._raw_bytes = 0
        self._status: int | None = None  # once the head of the answer is there
        self._is_whole = False
        self._stays = True

    @property
    def is_free(self) -> bool:
        """Return True if the connection can take another request."""
        is_over = self._answer is None or self._is_whole
        return is_over and self._stays and self._transport is not None and not self._transport.is_closing()

    async def ask(self, request: bytes) -> bytes:
        """Send a request and return the body of the response."""
        if self._transport is None:
            raise AssertionError  # the caller waited for the connection
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._begin(answer)
        self._transport.write(request)
        return await answer

    def abort(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Implements `asyncio.Protocol`."""
        if isinstance(transport, asyncio.Transport):
            self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """Implements `asyncio.Protocol`."""
        has_length = "content-length" in self._headers or "transfer-encoding" in self._headers
        if exc is None and self._status is not None and not has_length:
            self._end()
        else:
            self._fail(
                EndpointUnreachable(f"{type(exc).__name__}: {exc}" if exc else "the connection ended before the answer")
            )
        if not self.closed.done():
            self.closed.set_result(None)

    def data_received(self, data: bytes) -> None:
        """Implements `asyncio.Protocol`."""
        self._raw_bytes += len(data)
        if self._answer is None or self._answer.done():  # no request is open
            self._stays = False
            self.abort()
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._stays = False
            self._fail(EndpointUnreachable(f"it does not speak HTTP/1.1: {error}"))
        if self._raw_bytes > (_HEAD_BYTES if self._status is None else _RAW_BYTES):
            limit = _HEAD if self._status is None else _RAW
            self._fail(UnexpectedResponse(f"its head, or its body with chunk headers, is longer than {limit}"))

    def on_message_begin(self) -> None:
        """Close the connection if a response begins that was not requested."""
        if self._is_whole:
            self._stays = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header. Trailers are ignored: they have no bound of their own, and joining 4 MB of them took 24 s."""
        if self._status is not None:
            return
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        self._headers[key] = f"{self._headers[key]}, {text}" if key in self._headers else text

    def on_headers_complete(self) -> None:
        """Note the end of the headers, as reported by the parser."""
        status = self._parser.get_status_code()
        if status >= _FIRST_FINAL_STATUS:
            self._status = status
            self._stays = self._stays and self._parser.should_keep_alive()

    def on_body(self, body: bytes) -> None:
        """Add a part of the body, as reported by the parser."""
        self._body += body
        if self._is_error:
            if len(self._body) >= ERROR_BYTES:
                self._stays = False
                self._end()
        elif len(self._body) > ANSWER_BYTES:
            self._fail(_too_long())

    def on_message_complete(self) -> None:
        """Note the end of a response, except an informational one that another follows."""
        if self._status is None:
            self._headers.clear()
        else:
            self._is_whole = True
            self._end()

    @property
    def _is_error(self) -> bool:
        return self._status is not None and self._status >= FIRST_ERROR_STATUS

    def _end(self) -> None:
        if self._answer is None or self._answer.done():
            return
        body = bytes(self._body)
        wbits = _INFLATED.get(self._headers.get("content-encoding", ""))
        try:
            if wbits is not None:
                body = _inflated(body, wbits, ERROR_BYTES if self._is_error else ANSWER_BYTES)
        except (UnexpectedResponse, EndpointUnreachable) as error:
            self._fail(error)
            return
        if self._is_error:
            self._fail(ErrorStatus(self._status or 0, self._headers, body[:ERROR_BYTES]))
        else:
            self._answer.set_result(body)

    def _fail(self, error: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)


def _inflated(body: bytes, wbits: int, most: int) -> bytes:
    inflater = zlib.decompressobj(wbits)
    try:
        inflated = inflater.decompress(body, most + 1)
    except zlib.error as error:
        raise EndpointUnreachable(f"its body does not have its content-encoding: {error}") from error
    if len(inflated) > most:
        raise _too_long()
    return inflated


def _too_long() -> UnexpectedResponse:
    return UnexpectedResponse(f"it is longer than {ANSWER}")


def _tls() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context
