"""Limits of connections for a listener that accepts by itself, which gRPC's core does without a limit for an address.

Its sockets are descriptors of this process, so that the kernel shows whose they are and how long they have been silent,
and ends them.
"""

import logging
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
from collector.doors.connection_limits import ConnectionLimits, over_limit
from collector.doors.rare_log import RareLog

log = logging.getLogger(__name__)

_DESCRIPTORS: Final = "/proc/self/fd"
_LOOK_S: Final = 0.2
_REST: Final = 25
"""Time between two looks, and at least as a multiple of the time that one takes: 4 % of a thread, if there are many."""

_SOCKET: Final = "socket:["
_INFO_BYTES: Final = 56
_SILENT_OFFSET: Final = 52  # tcpi_last_data_recv of struct tcp_info: milliseconds, from the accept on


@dataclass(frozen=True, slots=True)
class _Client:
    descriptor: int
    inode: int
    address: str


class SocketGuard:
    """Closes the longest silent connections of a port while there are more than the limits allow.

    `close_excess` is for one thread at a time.
    """

    def __init__(self, port: int, limits: ConnectionLimits, proxies: TrustedProxies) -> None:
        self._port = port
        self._limits = limits
        self._proxies = proxies
        self._log = RareLog(log)
        self._addresses: dict[int, str | None] = {}  # by inode; None for what is no connection of a client
        # Descriptors are looked at through this one, since a new one may not be had when it matters.
        self._nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self._slot = os.dup(self._nothing)

    def close(self) -> None:
        """Give the descriptors back."""
        os.close(self._slot)
        os.close(self._nothing)

    def close_excess(self) -> None:
        """Close the connections that are too much."""
        clients = list(self._clients())
        by_address: dict[str, list[_Client]] = {}
        for client in clients:
            by_address.setdefault(client.address, []).append(client)
        closed = 0
        for address, same in by_address.items():
            if address not in self._proxies and len(same) > self._limits.per_address:
                self._log.warn(over_limit("max_connections_per_address", address, len(same)))
                closed += self._close_silent(same, len(same) - self._limits.per_address)
        excess = len(clients) - closed - self._limits.total
        if excess > 0:
            most = max(by_address.values(), key=len)
            self._log.warn(over_limit("max_connections", most[0].address, len(most)))
            self._close_silent(most if len(most) > excess else clients, excess)

    def _clients(self) -> Iterator[_Client]:
        seen: dict[int, str | None] = {}
        for descriptor, inode in _sockets():
            if inode not in self._addresses:
                self._addresses[inode] = self._address_of(descriptor, inode)
            address = seen[inode] = self._addresses[inode]
            if address is not None:
                yield _Client(descriptor, inode, address)
        self._addresses = seen

    def _address_of(self, descriptor: int, inode: int) -> str | None:
        address = None
        with self._looked_at(descriptor, inode) as one:
            if one is not None and self._is_client(one):
                address = unmapped(one.getpeername()[0])
        return address

    def _is_client(self, one: socket.socket) -> bool:
        is_tcp = one.family in {socket.AF_INET, socket.AF_INET6} and one.type == socket.SOCK_STREAM
        if not is_tcp or one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            return False
        return bool(one.getsockname()[1] == self._port)

    def _close_silent(self, clients: list[_Client], count: int) -> int:
        silent = sorted(clients, key=self._silent_ms, reverse=True)[:count]
        for client in silent:
            with self._looked_at(client.descriptor, client.inode) as one:
                if one is not None:
                    one.shutdown(socket.SHUT_RDWR)
        return len(silent)

    def _silent_ms(self, client: _Client) -> int:
        with self._looked_at(client.descriptor, client.inode) as one:
            if one is not None:
                info = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
                return int(struct.unpack_from("I", info, _SILENT_OFFSET)[0])
        return 0

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


def _sockets() -> Iterator[tuple[int, int]]:
    """Yield descriptor and inode of each socket of this process."""
    try:
        names = os.listdir(_DESCRIPTORS)  # noqa: PTH208 - a name is all that is needed of each
    except OSError:  # no descriptor is left to list them
        names = list(map(str, range(resource.getrlimit(resource.RLIMIT_NOFILE)[0])))
    for name in names:
        try:
            target = os.readlink(f"{_DESCRIPTORS}/{name}")  # noqa: PTH115 - no path, of which there are many here
        except OSError:  # closed by now
            continue
        if target.startswith(_SOCKET):
            yield int(name), int(target.removeprefix(_SOCKET).rstrip("]"))


@contextmanager
def guarded(port: int, limits: ConnectionLimits, proxies: TrustedProxies) -> Iterator[None]:
    """Keep the connections of a port within limits during the block. Only Linux shows them."""
    if sys.platform != "linux":
        yield
        return
    guard, over = SocketGuard(port, limits.with_room(), proxies), threading.Event()

    def watch() -> None:
        pause_s = _LOOK_S
        while not over.wait(pause_s):
            began_s = time.monotonic()
            guard.close_excess()
            pause_s = max(_LOOK_S, (time.monotonic() - began_s) * _REST)

    thread = threading.Thread(target=watch, name="socket-guard", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        guard.close()
