"""Limits of connections for listeners that accept by themselves: gRPC's core, and Quack in a process of its own.

Its sockets are descriptors of this process, so that the kernel shows whose they are and how long they have been silent,
and ends them.
"""

import math
import os
import resource
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from collector.access.proxies import TrustedProxies, unmapped
from collector.doors.closed_connections import Reason, ReportClosed
from collector.doors.connection_limits import ConnectionLimits

_DESCRIPTORS: Final = "/proc/self/fd"
_LOOK_S: Final = 0.2
_REST: Final = 25
"""Time between two looks, and at least as a multiple of the time that one takes: 4 % of a thread, if there are many."""

_BACKLOG: Final = 1 << 16
"""Cut to net.core.somaxconn. With Quack's own of 5 most connections of a burst are dropped, and tried again later."""

_SOCKET: Final = "socket:["
_INFO_BYTES: Final = 136
_SENT_OFFSET, _RECEIVED_OFFSET = 44, 52
"""Of tcpi_last_data_sent and tcpi_last_data_recv in struct tcp_info: milliseconds since then, or since the accept."""

_BYTES_OFFSET: Final = 128  # of tcpi_bytes_received, since Linux 4.1
_PROGRESS_S: Final = 1.0  # between two looks at which requests are late


@dataclass(frozen=True, slots=True)
class _Client:
    descriptor: int
    inode: int
    address: str


@dataclass(frozen=True, slots=True)
class _Activity:
    """Activity of a connection, in seconds of the monotonic clock."""

    sent_s: float
    received_s: float  # the time of the accept, if nothing was
    has_received: bool


class SocketGuard:
    """Closes the longest silent connections of a port while there are more than the limits allow.

    It is for one thread at a time.
    """

    def __init__(self, port: int, limits: ConnectionLimits, proxies: TrustedProxies, report: ReportClosed) -> None:
        self._port = port
        self._limits = limits
        self._proxies = proxies
        self._report = report
        self._began_s: dict[int, float] = {}  # by inode: when the request began that is arriving
        self._ended: set[int] = set()  # inodes of those that were closed here and still have a descriptor
        self._addresses: dict[int, str | None] = {}  # by inode; None for what is no connection of a client
        # Descriptors are looked at through this one, since a new one may not be had when it matters.
        self._nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self._slot = os.dup(self._nothing)

    def close(self) -> None:
        """Give the descriptors back."""
        os.close(self._slot)
        os.close(self._nothing)

    def lengthen_backlog(self) -> None:
        """Let more connections wait for their accept."""
        for descriptor, inode in self._sockets():
            with self._looked_at(descriptor, inode) as one:
                if (
                    one is not None
                    and self._is_of_port(one)
                    and one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
                ):
                    one.listen(_BACKLOG)

    def close_excess(self) -> None:
        """Close the connections that are too much."""
        clients = list(self._clients())
        by_address: dict[str, list[_Client]] = {}
        for client in clients:
            by_address.setdefault(client.address, []).append(client)
        closed = 0
        for address, same in by_address.items():
            if address not in self._proxies and len(same) > self._limits.per_address:
                closed += self._close_silent(same, len(same) - self._limits.per_address, Reason.ADDRESS_LIMIT)
        excess = len(clients) - closed - self._limits.total
        if excess > 0:
            most = max(by_address.values(), key=len)
            self._close_silent(most if len(most) > excess else clients, excess, Reason.TOTAL_LIMIT)

    def close_slow(self) -> None:
        """Close the connections whose first byte is late, or whose request takes too long to arrive."""
        clients = list(self._clients())
        self._began_s = {client.inode: self._began_s.get(client.inode, -math.inf) for client in clients}
        for client in clients:
            activity = self._activity(client)
            reason = None if activity is None else self._lateness(client, activity)
            if reason is not None:
                self._close([client], reason)

    def _lateness(self, client: _Client, activity: _Activity) -> Reason | None:
        if not activity.has_received:
            is_late = time.monotonic() - activity.received_s > self._limits.first_byte_s
            return Reason.FIRST_BYTE_TIMEOUT if is_late else None
        if activity.sent_s >= self._began_s[client.inode]:  # which answers what began before
            self._began_s[client.inode] = max(activity.received_s, activity.sent_s)
        is_late = activity.received_s - self._began_s[client.inode] > self._limits.header_s
        return Reason.HEADER_TIMEOUT if is_late else None

    def _clients(self) -> Iterator[_Client]:
        seen: dict[int, str | None] = {}
        for descriptor, inode in self._sockets():
            if inode not in self._addresses:
                self._addresses[inode] = self._address_of(descriptor, inode)
            address = seen[inode] = self._addresses[inode]
            if address is not None:
                yield _Client(descriptor, inode, address)
        self._addresses = seen
        self._ended &= seen.keys()

    def _sockets(self) -> Iterator[tuple[int, int]]:
        """Yield descriptor and inode of each socket of this process."""
        try:
            names = os.listdir(_DESCRIPTORS)  # noqa: PTH208 - a name is all that is needed of each
        except OSError:  # no descriptor is left to list them, and none to accept
            self._report(Reason.NO_DESCRIPTOR, "", 1)
            names = list(map(str, range(resource.getrlimit(resource.RLIMIT_NOFILE)[0])))
        for name in names:
            try:
                target = os.readlink(f"{_DESCRIPTORS}/{name}")  # noqa: PTH115 - no path, of which there are many here
            except OSError:  # closed by now
                continue
            if target.startswith(_SOCKET):
                yield int(name), int(target.removeprefix(_SOCKET).rstrip("]"))

    def _address_of(self, descriptor: int, inode: int) -> str | None:
        address = None
        with self._looked_at(descriptor, inode) as one:
            if one is not None and self._is_client(one):
                address = unmapped(one.getpeername()[0])
        return address

    def _is_client(self, one: socket.socket) -> bool:
        return self._is_of_port(one) and not one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)

    def _is_of_port(self, one: socket.socket) -> bool:
        is_tcp = one.family in {socket.AF_INET, socket.AF_INET6} and one.type == socket.SOCK_STREAM
        return is_tcp and bool(one.getsockname()[1] == self._port)

    def _close_silent(self, clients: list[_Client], count: int, reason: Reason) -> int:
        silent = sorted(clients, key=self._silent_since_s)[:count]
        self._close(silent, reason)
        return len(silent)

    def _close(self, clients: list[_Client], reason: Reason) -> None:
        for client in clients:
            with self._looked_at(client.descriptor, client.inode) as one:
                if one is not None:
                    one.shutdown(socket.SHUT_RDWR)
        new = [client for client in clients if client.inode not in self._ended]
        self._ended |= {client.inode for client in new}
        if new:
            self._report(reason, new[0].address, len(new))

    def _silent_since_s(self, client: _Client) -> float:
        activity = self._activity(client)
        return math.inf if activity is None else activity.received_s

    def _activity(self, client: _Client) -> _Activity | None:
        with self._looked_at(client.descriptor, client.inode) as one:
            if one is not None:
                info = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
                now_s = time.monotonic()
                return _Activity(
                    sent_s=now_s - struct.unpack_from("I", info, _SENT_OFFSET)[0] / 1e3,
                    received_s=now_s - struct.unpack_from("I", info, _RECEIVED_OFFSET)[0] / 1e3,
                    has_received=bool(struct.unpack_from("Q", info, _BYTES_OFFSET)[0]),
                )
        return None

    @contextmanager
    def _looked_at(self, descriptor: int, inode: int) -> Iterator[socket.socket | None]:
        """Show a socket as long as it is still the one of that inode; errors of one that is closed end the block."""
        one = None
        with suppress(OSError):
            os.dup2(descriptor, self._slot, inheritable=False)
            if os.fstat(self._slot).st_ino == inode:
                one = socket.socket(fileno=self._slot)
        try:
            with suppress(OSError):
                yield one
        finally:
            if one is not None:
                one.detach()
            os.dup2(self._nothing, self._slot, inheritable=False)  # else it would keep the connection open


@contextmanager
def guarded(port: int, limits: ConnectionLimits, proxies: TrustedProxies, report: ReportClosed) -> Iterator[None]:
    """Keep the connections of a port within limits during the block. Only Linux shows them."""
    if sys.platform != "linux":
        yield
        return
    guard, over = SocketGuard(port, limits.with_room(), proxies, report), threading.Event()
    guard.lengthen_backlog()

    def watch() -> None:
        pause_s, next_s = _LOOK_S, 0.0
        while not over.wait(pause_s):
            began_s = time.monotonic()
            guard.close_excess()
            if began_s >= next_s:
                guard.close_slow()
                next_s = began_s + _PROGRESS_S
            pause_s = max(_LOOK_S, (time.monotonic() - began_s) * _REST)

    thread = threading.Thread(target=watch, name="socket-guard", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        guard.close()
