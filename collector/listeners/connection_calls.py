"""Calls over the connections of a listener whose sockets belong to a library."""

from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from collector.listeners.refused_addresses import RefusedAddresses

Peer: TypeAlias = tuple[str, int]
"""Address and port of a client, which are those of one connection."""


class ConnectionCalls:
    """Calls by connection. Written on the event loop, read from one other thread."""

    def __init__(self) -> None:
        self.refused = RefusedAddresses()
        self._under_way: Counter[Peer] = Counter()
        self._by_address: Counter[str] = Counter()
        self._served: set[Peer] = set()
        self._gone: set[Peer] = set()

    @contextmanager
    def under_way(self, peer: Peer) -> Iterator[None]:
        """Note a call for the time of the block."""
        self._under_way[peer] += 1
        self._by_address[peer[0]] += 1
        try:
            yield
        finally:
            self._served.add(peer)
            self._under_way[peer] -= 1
            if not self._under_way[peer]:
                del self._under_way[peer]
            self._by_address[peer[0]] -= 1
            if not self._by_address[peer[0]]:
                del self._by_address[peer[0]]

    def of(self, address: str) -> int:
        """Count calls of an address that are under way."""
        return self._by_address[address]

    def is_busy(self, peer: Peer) -> bool:
        """Return whether a call is under way."""
        return peer in self._under_way

    def has_served(self, peer: Peer) -> bool:
        """Return whether a call has ended."""
        return peer in self._served

    def forget_others(self, peers: Collection[Peer]) -> None:
        """Forget connections missing from two lists in a row; a new one may be missing from the first."""
        gone = set(self._served).difference(peers)
        for peer in gone & self._gone:
            self._served.discard(peer)
        self._gone = gone
