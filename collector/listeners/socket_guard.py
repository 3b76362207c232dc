"""Limits of connections for listeners that accept by themselves: gRPC's core, and Quack in a process of its own.

The guard runs in the process of such a listener, which owns its sockets as descriptors. From the kernel it learns
their peers and how long they have been silent, and it has the kernel shut them down.
"""

import fcntl
import logging
import math
import os
import resource
import socket
import struct
import sys
import termios
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from collector.access.proxies import TrustedProxies, unmapped
from collector.follower import WaitLog
from collector.listeners.closed_connections import Reason, ReportClosed
from collector.listeners.connection_calls import ConnectionCalls, Peer
from collector.listeners.connection_limits import ConnectionLimits
from collector.listeners.socket_filter import refuse

log = logging.getLogger(__name__)

_DESCRIPTORS: Final = "/proc/self/fd"
_LOOK_S: Final = 0.2
_REST: Final = 25
"""Minimum pause between checks, in seconds and in multiples of the duration of a check: at most 4 % of a thread."""

_BACKLOG: Final = 1 << 16
"""Backlog of the socket, cut to net.core.somaxconn. With Quack's own of 5, most connections of a burst are dropped."""

_GOAWAY: Final = bytes.fromhex("0000080700000000007fffffff00000000")
"""A frame of HTTP/2: calls under way are answered, new ones go over another connection (RFC 9113, 6.8)."""

_GRACE_S: Final = 1.0
_LONGEST_GRACE_S: Final = 5.0
"""Time from GOAWAY to the close of a connection, and the longer time if a call is under way. Guesses."""

_NEW_S: Final = 3.0  # in which a client sends its first call; a guess

_SOCKET: Final = "socket:["
_INFO_BYTES: Final = 136
_SENT_OFFSET, _RECEIVED_OFFSET = 44, 52
"""Offsets of tcpi_last_data_sent and tcpi_last_data_recv in struct tcp_info: milliseconds since the last
data, or since the accept if there was none."""

_BYTES_OFFSET: Final = 128  # of tcpi_bytes_received, since Linux 4.1
_PROGRESS_S: Final = 1.0  # between two checks of late requests


@dataclass(frozen=True, slots=True)
class _Client:
    descriptor: int
    inode: int
    peer: Peer


@dataclass(frozen=True, slots=True)
class _Activity:
    """Activity of a connection, in seconds of the monotonic clock."""

    sent_s: float
    received_s: float  # the time of the accept, if nothing was received
    has_received: bool


class SocketGuard:
    """Limit on the connections of a port: closes those that have been silent the longest.

    With `calls`, connections that made no call within some seconds are closed first, those with a call under way last.
    With `goaway`, which needs HTTP/2 without TLS, a client that made calls gets a GOAWAY first. For one thread at a
    time.
    """

    def __init__(
        self,
        port: int,
        limits: ConnectionLimits,
        proxies: TrustedProxies,
        report: ReportClosed,
        calls: ConnectionCalls | None = None,
        *,
        goaway: bool = False,
    ) -> None:
        self._port = port
        self._limits = limits
        self._proxies = proxies
        self._report = report
        self._calls = calls or ConnectionCalls()
        self._dropped: Collection[str] = ()  # addresses of which the kernel drops packets
        self._goaway = goaway
        self._leaving_s: dict[int, float] = {}  # by inode: since when its client should leave
        self._began_s: dict[int, float] = {}  # by inode: when the request began that is arriving
        self._ended: set[int] = set()  # inodes of connections that were closed here and still have a descriptor
        self._peers: dict[int, Peer | None] = {}  # by inode; None for a socket that is not a connection of a client
        # Descriptors are read through this one, since opening a new one may fail when it matters.
        self._nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self._slot = os.dup(self._nothing)

    def close(self) -> None:
        """Close the guard's own descriptors."""
        os.close(self._slot)
        os.close(self._nothing)

    def lengthen_backlog(self) -> None:
        """Let more connections wait for their accept."""
        self._with_listening(lambda one: one.listen(_BACKLOG))

    def refuse(self) -> None:
        """Close the connections of refused addresses, and have the kernel drop their packets."""
        addresses = [address for address in self._calls.refused.now() if address not in self._proxies]
        if addresses != self._dropped:
            self._with_listening(lambda one: refuse(one, addresses))
            self._dropped = addresses
        if addresses:
            for client in [client for client in self._clients() if client.peer[0] in addresses]:
                self._shut_down(client)
                if client.inode not in self._ended:
                    self._report(Reason.WASTED_CALLS, client.peer[0], 1)
                self._ended.add(client.inode)

    def _with_listening(self, act: Callable[[socket.socket], None]) -> None:
        for descriptor, inode in self._sockets():
            with self._looked_at(descriptor, inode) as one:
                if (
                    one is not None
                    and self._is_of_port(one)
                    and one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
                ):
                    act(one)

    def close_excess(self) -> None:
        """Close connections beyond the limits, or ask their clients to leave."""
        everyone = list(self._clients())
        self._end_graces(everyone)
        clients = [client for client in everyone if client.inode not in self._leaving_s]
        by_address: dict[str, list[_Client]] = {}
        for client in clients:
            by_address.setdefault(client.peer[0], []).append(client)
        closed = 0
        for address, same in by_address.items():
            if address not in self._proxies and len(same) > self._limits.per_address:
                closed += self._close_silent(same, len(same) - self._limits.per_address, Reason.ADDRESS_LIMIT)
        excess = len(clients) - closed - self._limits.total
        if excess > 0:
            most = max(by_address.values(), key=len)
            self._close_silent(most if len(most) > excess else clients, excess, Reason.TOTAL_LIMIT)

    def _end_graces(self, clients: list[_Client]) -> None:
        """Close connections whose clients did not leave in time after GOAWAY, or at once if room is short."""
        self._calls.forget_others([client.peer for client in clients])
        now_s, is_crowded = time.monotonic(), len(clients) > self._limits.total * 7 // 6
        leaving = {client.inode: client for client in clients if client.inode in self._leaving_s}
        self._leaving_s = {inode: self._leaving_s[inode] for inode in leaving}
        for inode, client in leaving.items():
            grace_s = _LONGEST_GRACE_S if self._calls.is_busy(client.peer) else _GRACE_S
            if is_crowded or now_s - self._leaving_s[inode] > grace_s:
                self._shut_down(client)

    def close_slow(self) -> None:
        """Close the connections whose first byte is late, or whose request takes too long to arrive."""
        clients = [client for client in self._clients() if not self._calls.is_busy(client.peer)]
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
        if activity.sent_s >= self._began_s[client.inode]:  # data was sent since: the previous request has its response
            self._began_s[client.inode] = max(activity.received_s, activity.sent_s)
        is_late = activity.received_s - self._began_s[client.inode] > self._limits.header_s
        return Reason.HEADER_TIMEOUT if is_late else None

    def _clients(self) -> Iterator[_Client]:
        seen: dict[int, Peer | None] = {}
        for descriptor, inode in self._sockets():
            if inode not in self._peers:
                self._peers[inode] = self._peer_of(descriptor, inode)
            peer = seen[inode] = self._peers[inode]
            if peer is not None:
                yield _Client(descriptor, inode, peer)
        self._peers = seen
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

    def _peer_of(self, descriptor: int, inode: int) -> Peer | None:
        peer = None
        with self._looked_at(descriptor, inode) as one:
            if one is not None and self._is_client(one):
                address, port, *_ = one.getpeername()
                peer = unmapped(address), port
        return peer

    def _is_client(self, one: socket.socket) -> bool:
        return self._is_of_port(one) and not one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)

    def _is_of_port(self, one: socket.socket) -> bool:
        is_tcp = one.family in {socket.AF_INET, socket.AF_INET6} and one.type == socket.SOCK_STREAM
        return is_tcp and bool(one.getsockname()[1] == self._port)

    def _close_silent(self, clients: list[_Client], count: int, reason: Reason) -> int:
        silent = sorted(clients, key=self._turn)[:count]
        self._close(silent, reason)
        return len(silent)

    def _close(self, clients: list[_Client], reason: Reason) -> None:
        for client in clients:
            if not (self._goaway and self._calls.has_served(client.peer) and self._sent_goaway(client)):
                self._shut_down(client)
        new = [client for client in clients if client.inode not in self._ended]
        self._ended |= {client.inode for client in new}
        if new:
            self._report(reason, new[0].peer[0], len(new))

    def _shut_down(self, client: _Client) -> None:
        with self._looked_at(client.descriptor, client.inode) as one:
            if one is not None:
                one.shutdown(socket.SHUT_RDWR)

    def _sent_goaway(self, client: _Client) -> bool:
        """Send GOAWAY if the send buffer is empty, since a full one could cut the frame; return whether it was sent."""
        is_sent = False
        with self._looked_at(client.descriptor, client.inode) as one:
            if one is not None and fcntl.ioctl(one, termios.TIOCOUTQ, bytes(4)) == bytes(4):
                is_sent = one.send(_GOAWAY, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL) == len(_GOAWAY)
        if is_sent:
            self._leaving_s[client.inode] = time.monotonic()
        return is_sent

    def _turn(self, client: _Client) -> tuple[bool, bool, float]:
        activity = self._activity(client)
        silent_since_s = math.inf if activity is None else activity.received_s
        is_new = silent_since_s > time.monotonic() - _NEW_S
        return self._calls.is_busy(client.peer), is_new or self._calls.has_served(client.peer), silent_since_s

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
        """Yield a descriptor's socket if it still has this inode, else None; an OSError ends the block silently."""
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
def guarded(
    port: int,
    limits: ConnectionLimits,
    proxies: TrustedProxies,
    report: ReportClosed,
    calls: ConnectionCalls | None = None,
    *,
    goaway: bool = False,
) -> Iterator[None]:
    """Keep the connections of a port within limits during the block; does nothing except on Linux."""
    if sys.platform != "linux":
        yield
        return
    calls = calls or ConnectionCalls()
    guard = SocketGuard(port, limits.with_room(), proxies, report, calls, goaway=goaway)
    is_over, wake = False, calls.refused.changed
    guard.lengthen_backlog()
    failures = WaitLog(log, "limits of connections do not hold: %s")

    def watch() -> None:
        pause_s, next_s = _LOOK_S, 0.0
        while not is_over:
            wake.wait(pause_s)
            wake.clear()
            began_s = time.monotonic()
            is_due = began_s >= next_s
            next_s = began_s + _PROGRESS_S if is_due else next_s
            for act in (guard.refuse, guard.close_excess, *([guard.close_slow] if is_due else ())):
                try:
                    act()
                except Exception as error:  # noqa: BLE001 - the top of a thread: without it no limit would hold
                    failures.note(f"{type(error).__name__}: {error}")
            pause_s = max(_LOOK_S, (time.monotonic() - began_s) * _REST)

    thread = threading.Thread(target=watch, name="socket-guard", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over = True
        wake.set()
        thread.join()
        guard.close()
