"""Presence of Quack's clients: Quack does not report it, but the kernel knows which connections were closed.

Quack does not reveal the connection of a query. It is one of the connections that are open when the query
begins, and over which nothing is sent before the query is answered; those that must belong to other queries are ruled
out. If several remain, a query counts as abandoned once all of them were closed: rather late than wrong.
"""

import os
import socket
import stat
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

_LOOK_S: Final = 0.2  # between two checks while a query runs; a guess
_DESCRIPTORS: Final = Path("/proc/self/fd")
_INFO_BYTES: Final = 160
_SENT_OFFSET: Final = 156  # of tcpi_data_segs_out in struct tcp_info, since Linux 4.6
_ESTABLISHED: Final = 1

Possible: TypeAlias = dict[int, int]
"""The connections over which a query may have come, with the number of packets sent over each when it began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConnection:
    """State of a connection in the kernel."""

    sent: int  # packets with data
    is_closed: bool  # by the client


@dataclass(frozen=True, slots=True, eq=False)
class _Question:
    leave: Callable[[], None]
    possible: Possible


class Clients:
    """Watcher of the clients of one port of this process, in its own thread; it sees disconnects on Linux only."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._changed = threading.Condition()
        self._questions: list[_Question] = []
        threading.Thread(target=self._watch, name="quack-clients", daemon=True).start()

    @contextmanager
    def watched(self, leave: Callable[[], None]) -> Iterator[None]:
        """Call `leave` once, from a thread, if the client of the query disconnects during the block."""
        question = _Question(leave, {each: one.sent for each, one in connections(self._port).items()})
        with self._changed:
            self._questions.append(question)
            self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                if question in self._questions:
                    self._questions.remove(question)

    def _watch(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._questions)
                questions = list(self._questions)
            # Read after the list of queries: in an earlier reading, the connection of a new query could be missing.
            gone = left([each.possible for each in questions], connections(self._port))
            with self._changed:
                for question in [questions[number] for number in gone]:
                    if question in self._questions:
                        self._questions.remove(question)
                        question.leave()
            time.sleep(_LOOK_S)


def left(questions: list[Possible], now: Mapping[int, ClientConnection]) -> list[int]:
    """Return the indexes of the queries whose client has left; narrow the possible connections of the others."""
    for possible in questions:
        for each in [each for each, sent in possible.items() if each not in now or now[each].sent != sent]:
            del possible[each]
    while _rule_out([possible for possible in questions if possible]):
        pass
    closed = {each for each, connection in now.items() if connection.is_closed}
    return [number for number, possible in enumerate(questions) if possible and possible.keys() <= closed]


def _rule_out(questions: list[Possible]) -> bool:
    """Rule out connections of a query that others must have; return True if that changed something."""
    for some in {frozenset(possible) for possible in questions}:
        others = [possible for possible in questions if not possible.keys() <= some]
        elsewhere = [(possible, each) for possible in others for each in some & possible.keys()]
        if elsewhere and len(questions) - len(others) == len(some):
            for possible, each in elsewhere:
                del possible[each]
            return True
    return False


def connections(port: int) -> dict[int, ClientConnection]:
    """Return the connections to a port of this process, by inode of the socket."""
    if sys.platform != "linux":
        return {}
    by_inode = {}
    for name in os.listdir(_DESCRIPTORS):  # noqa: PTH208 - a name is all that is needed of each
        try:
            descriptor = os.dup(int(name))  # so that the number is not reused meanwhile
        except OSError:  # closed by now
            continue
        status = os.fstat(descriptor)
        if not stat.S_ISSOCK(status.st_mode):
            os.close(descriptor)
            continue
        with socket.socket(fileno=descriptor) as one, suppress(OSError):  # the kernel does not report TCP_INFO
            connection = _connection(one, port)
            if connection is not None:
                by_inode[status.st_ino] = connection
    return by_inode


def _connection(one: socket.socket, port: int) -> ClientConnection | None:
    if one.family not in {socket.AF_INET, socket.AF_INET6} or one.getsockname()[1] != port:
        return None
    if one.type != socket.SOCK_STREAM or one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        return None
    info = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
    sent = struct.unpack_from("I", info, _SENT_OFFSET)[0] if len(info) == _INFO_BYTES else 0
    return ClientConnection(sent=sent, is_closed=info[0] != _ESTABLISHED)
