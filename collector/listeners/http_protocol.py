# ruff: noqa: D102 - most methods here override uvicorn's protocol
"""HTTP/1.1 of uvicorn with bounds on what a client may send, and on how slowly it may send and read."""

import asyncio
import math
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from collector.listeners.closed_connections import Reason
from collector.listeners.connection_limits import MOST_PIPELINED, PART_BYTES, UNREAD_BYTES, ConnectionLimits
from collector.listeners.response_buffer import SLICE_BYTES, CutOff

_PROGRESS_BYTES: Final = 16 << 10
"""Bytes of a body that have to arrive within `idle_s`: by default, 218 bytes a second. A guess."""

_SMALL_PARTS: Final = 1_000
"""The parts of a body with more parts than this must have `PART_BYTES` on average, since each costs a turn of the event
loop. A guess."""

_UNREAD_PART_BYTES: Final = 4 << 10
"""Bytes added for each part that counts in `UNREAD_BYTES`, since its turn of the event loop costs as much. A guess."""


_RESET: Final = struct.pack("ii", 1, 0)  # for SO_LINGER: a close then resets the connection


class TooManyParts(Exception):
    """Refusal of a body in very many very small parts."""


class Unread(Exception):
    """Refusal of a body of which too much arrives after its response."""


class HeaderTooLarge(Exception):
    """Refusal of a request whose header or trailer exceeds the limit."""


class TooManyPipelined(Exception):
    """Refusal of a connection with too many waiting requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionCallbacks:
    """Callbacks of a connection to what accepted it."""

    lost: Callable[[], None]  # called once at its end
    report: Callable[[Reason], None]  # why it is cut
    is_crowded: Callable[[], bool]  # near a limit of connections


class HttpProtocol(HttpToolsProtocol):
    """One connection. `check_progress` is called every second, and ends it if its client is too slow."""

    def __init__(self, limits: ConnectionLimits, around: ConnectionCallbacks, **of_uvicorn: Any) -> None:
        super().__init__(**of_uvicorn)
        self._application, self.app = self.app, self._answer_or_abort
        self._has_ended = asyncio.Event()
        self._limits = limits
        self._around = around
        self._is_cut = False
        self._is_in_message = False
        self._header_bytes = self._parts = self._parts_bytes = 0
        self._unparsed_bytes = 0  # since the parser's last callback: of an endless name, value or extension
        self._body_bytes = 0  # since the deadline was set
        self._unread_bytes = 0  # of a body, after its answer
        self._deadline_s, self._deadline_reason = math.inf, Reason.FIRST_BYTE_TIMEOUT
        self._stalled_s = math.inf  # since when the client reads nothing
        self._closing_s = math.inf
        self.idle_since_s = time.monotonic()

    @property
    def is_idle(self) -> bool:
        """Return True while no request is being answered."""
        cycle: RequestResponseCycle | None = self.cycle  # which uvicorn declares without None
        return cycle is None or cycle.response_complete

    @property
    def has_served(self) -> bool:
        """Return True once a request has begun on this connection."""
        return self.cycle is not None

    def abort(self) -> None:
        """Close at once, whatever is still to be sent."""
        self.transport.abort()

    def check_progress(self, now_s: float) -> None:
        """Close the connection if its client is too slow."""
        if self.transport.is_closing():
            self._closing_s = min(self._closing_s, now_s)
            if now_s - self._closing_s > self._limits.first_byte_s:
                self._cut(Reason.UNREAD_ANSWER)
                self.abort()
        elif now_s - self._stalled_s > self._limits.idle_s:
            self._cut(Reason.UNREAD_ANSWER)
            self.abort()
        elif self.flow.read_paused:  # by the application: the client is not slow
            self._deadline_s = max(self._deadline_s, now_s + self._limits.header_s)
        elif now_s > self._deadline_s and (self._is_in_message or self.is_idle):
            self._cut(self._deadline_reason)
            if self._deadline_reason is Reason.BODY_TIMEOUT and not self.cycle.response_started and not self.pipeline:
                part = f"{_PROGRESS_BYTES >> 10} KiB of the body"
                self._answer(408, f"{part} did not arrive within {self._limits.idle_limit()}")
            self.transport.close()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        super().connection_made(transport)
        transport.set_write_buffer_limits(SLICE_BYTES)  # under TLS asyncio keeps eight times as much
        self._wait(Reason.FIRST_BYTE_TIMEOUT, self._limits.first_byte_s)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._has_ended.set()
        self._around.lost()

    def data_received(self, data: bytes) -> None:
        if not self._is_in_message and self._deadline_s == math.inf:
            self._wait(Reason.HEADER_TIMEOUT, self._limits.header_s)
        self._unparsed_bytes += len(data)
        super().data_received(data)
        if self._unparsed_bytes > self._limits.header_bytes and not self.transport.is_closing():
            self._refuse_header()

    def send_400_response(self, msg: str) -> None:
        if self._unread_bytes:  # the request has its response already
            self._cut(Reason.MALFORMED)
            self.transport.close()
        elif self._header_bytes > self._limits.header_bytes:
            self._refuse_header()
        else:
            self._cut(Reason.MALFORMED)
            super().send_400_response(msg)

    def on_message_begin(self) -> None:
        self._is_in_message = True
        self._header_bytes = self._parts = self._parts_bytes = self._unread_bytes = 0
        self._wait(Reason.HEADER_TIMEOUT, self._limits.header_s)
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._take_header(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._take_header(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= MOST_PIPELINED:
            self._cut(Reason.PIPELINED)
            raise TooManyPipelined
        self._extend()
        super().on_headers_complete()
        if self._around.is_crowded():
            self.cycle.keep_alive = False  # the response says `connection: close`

    def on_body(self, body: bytes) -> None:
        self._unparsed_bytes = 0
        if self.is_idle:
            self._unread_bytes += len(body) + _UNREAD_PART_BYTES
            if self._unread_bytes > UNREAD_BYTES:
                self._cut(Reason.UNREAD_BODY)
                raise Unread
        self._parts += 1
        self._parts_bytes += len(body)
        if self._parts > _SMALL_PARTS and self._parts_bytes < PART_BYTES * self._parts:
            self._cut(Reason.SMALL_PARTS)
            raise TooManyParts
        self._body_bytes += len(body)
        if self._body_bytes >= _PROGRESS_BYTES and not self.is_idle:
            self._extend()
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._is_in_message = False
        self._unparsed_bytes = self._unread_bytes = 0
        self._deadline_s = math.inf
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self.idle_since_s = time.monotonic()
        super().on_response_complete()

    def pause_writing(self) -> None:
        self._stalled_s = time.monotonic()
        super().pause_writing()

    def resume_writing(self) -> None:
        self._stalled_s = math.inf
        super().resume_writing()

    async def _answer_or_abort(self, scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401 - those of uvicorn
        try:
            await self._application(scope, receive, send)
        except CutOff:
            # A close looks to clients of HTTP/1.0 like the end of a complete answer, so the connection is reset.
            self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self.abort()
            await self._has_ended.wait()  # else uvicorn reports an application that did not complete its answer

    def _take_header(self, nbytes: int) -> None:
        self._unparsed_bytes = 0
        self._header_bytes += nbytes
        if self._header_bytes > self._limits.header_bytes:
            raise HeaderTooLarge  # the parser passes it on as one of its errors

    def _extend(self) -> None:
        self._unparsed_bytes = self._body_bytes = 0
        self._wait(Reason.BODY_TIMEOUT, self._limits.idle_s)

    def _wait(self, reason: Reason, seconds: float) -> None:
        self._deadline_s, self._deadline_reason = time.monotonic() + seconds, reason

    def _cut(self, reason: Reason) -> None:
        if not self._is_cut:
            self._is_cut = True
            self._around.report(reason)

    def _refuse_header(self) -> None:
        self._cut(Reason.HEADER_TOO_LARGE)
        if self.is_idle:
            self._answer(431, f"the header is larger than {self._limits.header_limit()}")
        self.transport.close()

    def _answer(self, status: int, sentence: str) -> None:
        text = sentence.encode()
        head = b"content-type: text/plain; charset=utf-8\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
        self.transport.write(STATUS_LINE[status] + head % len(text) + text)
