"""Connections of a listening socket: accepted within limits, the oldest idle one closed for a new one."""

import asyncio
import socket
import ssl
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from typing import Final

from collector.access.proxies import TrustedProxies, unmapped
from collector.listeners.certificate import Certificate
from collector.listeners.closed_connections import Reason, ReportClosed
from collector.listeners.connection_limits import ConnectionLimits
from collector.listeners.http_protocol import ConnectionCallbacks, HttpProtocol

_CROWDED: Final = 7 / 8
"""Share of a limit above which connections end after their response, so that few idle ones have to be cut. A guess."""

_PAUSE_S: Final = 0.2
"""Pause before accepting again if there was no descriptor for a connection. A guess."""


MakeProtocol = Callable[[ConnectionCallbacks], HttpProtocol]
"""Makes the protocol of a new connection."""


class _Connection:
    def __init__(self, accepted: socket.socket, address: str) -> None:
        self.address = address
        self.protocol: HttpProtocol | None = None  # None during a TLS handshake
        self.task: asyncio.Task[None] | None = None
        self._socket = accepted
        self._accepted_s = time.monotonic()

    @property
    def is_idle(self) -> bool:
        return self.protocol is None or self.protocol.is_idle

    @property
    def age(self) -> tuple[bool, float]:
        """Return a sort key: connections that never served come first; of equal ones, the longest idle."""
        if self.protocol is None:
            return False, self._accepted_s
        return self.protocol.has_served, self.protocol.idle_since_s

    def close(self) -> None:
        if self.protocol is not None:
            self.protocol.abort()
        else:
            with suppress(OSError):  # the client left already
                self._socket.shutdown(socket.SHUT_RDWR)  # ends a handshake in any state; asyncio then closes it


class Acceptor:
    """Acceptor of connections until it is closed. For the event loop."""

    def __init__(
        self,
        make: MakeProtocol,
        limits: ConnectionLimits,
        proxies: TrustedProxies,
        tls: Certificate | None,
        report: ReportClosed,
    ) -> None:
        self._make = make
        self._limits = limits
        self._proxies = proxies
        self._tls = tls
        self._report = report
        self._by_address: dict[str, dict[_Connection, None]] = {}
        self._count = 0
        self._listening: socket.socket | None = None  # None once closed

    def start(self, listening: socket.socket) -> None:
        """Begin to accept."""
        listening.setblocking(False)  # noqa: FBT003 - the only parameter
        self._listening = listening
        self._accept_more(listening)

    def close(self) -> None:
        """Accept no more. Connections that are established stay."""
        if self._listening is not None:
            asyncio.get_running_loop().remove_reader(self._listening)  # before the caller closes it, or hands it on
            self._listening = None
        for connection in self._connections():
            if connection.protocol is None:
                connection.close()

    async def wait_closed(self) -> None:
        """Return at once: `close` leaves nothing to wait for."""

    def check_progress(self) -> None:
        """Close connections whose clients are too slow."""
        now_s = time.monotonic()
        for connection in self._connections():
            if connection.protocol is not None:
                connection.protocol.check_progress(now_s)

    def _connections(self) -> list[_Connection]:
        return [connection for same in self._by_address.values() for connection in same]

    def _accept_more(self, listening: socket.socket) -> None:
        if self._listening is listening:
            asyncio.get_running_loop().add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        """Accept one connection; the loop calls again in its next pass if there is another one."""
        try:
            accepted, peer = listening.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):  # the client left again
            return
        except OSError:  # other errors are the server's, such as no descriptor
            self._close_oldest(self._connections())
            self._report(Reason.NO_DESCRIPTOR, "", 1)
            loop = asyncio.get_running_loop()
            loop.remove_reader(listening)
            loop.call_later(_PAUSE_S, self._accept_more, listening)
            return
        accepted.setblocking(False)  # noqa: FBT003 - the only parameter
        self._admit(accepted, unmapped(peer[0]))

    def _admit(self, accepted: socket.socket, address: str) -> None:
        same = self._by_address.get(address, {})
        if len(same) >= self._limits.per_address and address not in self._proxies:
            reason, crowd = Reason.ADDRESS_LIMIT, same
        elif self._count >= self._limits.total:
            reason, crowd = Reason.TOTAL_LIMIT, max(self._by_address.values(), key=len)
        else:
            self._serve(accepted, address)
            return
        self._report(reason, next(iter(crowd)).address, 1)
        if self._close_oldest(crowd) or (crowd is not same and self._close_oldest(self._connections())):
            self._serve(accepted, address)
        else:
            accepted.close()

    def _close_oldest(self, crowd: Collection[_Connection]) -> bool:
        idle = [connection for connection in crowd if connection.is_idle]
        if not idle:
            return False
        oldest = min(idle, key=lambda connection: connection.age)
        self._forget(oldest)
        oldest.close()
        return True

    def _serve(self, accepted: socket.socket, address: str) -> None:
        connection = _Connection(accepted, address)
        self._by_address.setdefault(address, {})[connection] = None
        self._count += 1
        connection.task = asyncio.create_task(self._connect(accepted, connection))

    async def _connect(self, accepted: socket.socket, connection: _Connection) -> None:
        report = partial(self._report_one, connection.address)
        around = ConnectionCallbacks(
            lost=lambda: self._forget(connection),
            report=report,
            is_crowded=lambda: self._is_crowded(connection.address),
        )
        try:
            _, connection.protocol = await asyncio.get_running_loop().connect_accepted_socket(
                lambda: self._make(around),
                accepted,
                ssl=self._tls.context if self._tls else None,
                ssl_handshake_timeout=self._limits.first_byte_s if self._tls else None,
            )
        except OSError as error:
            if isinstance(error, ssl.SSLError):
                report(Reason.TLS_FAILED)
            elif isinstance(error, ConnectionAbortedError):  # raised by asyncio for a handshake that takes too long
                report(Reason.FIRST_BYTE_TIMEOUT)
            self._forget(connection)

    def _is_crowded(self, address: str) -> bool:
        own = 0 if address in self._proxies else len(self._by_address.get(address, ()))
        return own > _CROWDED * self._limits.per_address or self._count > _CROWDED * self._limits.total

    def _report_one(self, address: str, reason: Reason) -> None:
        self._report(reason, address, 1)

    def _forget(self, connection: _Connection) -> None:
        same = self._by_address.get(connection.address, {})
        if connection in same:
            del same[connection]
            self._count -= 1
        if not same:
            self._by_address.pop(connection.address, None)
