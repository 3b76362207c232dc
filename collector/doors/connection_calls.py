"""Calls over the connections of a listener whose sockets belong to a library."""

from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TypeAlias

Peer: TypeAlias = tuple[str, int]
"""Address and port of a client, which are those of one connection."""


class ConnectionCalls:
    """Notes calls by connection. Noted on the event loop, read from one other thread."""

    def __init__(self) -> None:
        self._under_way: Counter[Peer] = Counter()
        self._served: set[Peer] = set()
        self._gone: set[Peer] = set()

    @contextmanager
    def under_way(self, peer: Peer) -> Iterator[None]:
        """Note a call for the time of the block."""
        self._under_way[peer] += 1
        try:
            yield
        finally:
            self._served.add(peer)
            self._under_way[peer] -= 1
            if not self._under_way[peer]:
                del self._under_way[peer]

    def is_busy(self, peer: Peer) -> bool:
        """Return whether a call is under way."""
        return peer in self._under_way

    def has_served(self, peer: Peer) -> bool:
        """Return whether a call has ended."""
        return peer in self._served

    def forget_others(self, peers: Collection[Peer]) -> None:
        """Forget connections that are neither among these nor were at the time before: one may have begun since."""
        gone = set(self._served).difference(peers)
        for peer in gone & self._gone:
            self._served.discard(peer)
        self._gone = gone
