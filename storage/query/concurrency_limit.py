"""Concurrency limit that no single caller can use up."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from secrets import token_hex

from storage.errors import Overloaded
from storage.limit import Limit


def hint(client_id: str) -> str:
    """Explain which clients share a limit if the caller is an address; a key needs no explanation."""
    try:
        ip_address(client_id)
    except ValueError:
        return ""
    return (
        f". All requests without a key from {client_id} count as one client: send an API key, or list {client_id} in"
        " trusted_proxies if it is a proxy"
    )


def group_of(client_id: str) -> str:
    """Return the group of a client, such as `acme/` for `acme/key_1`. A client without a tenant is its own group."""
    tenant, slash, _ = client_id.rpartition("/")
    return tenant + slash or client_id


class Places:
    """Semaphore shared by callers (API keys or addresses). A caller may hold at most as many places as stay free.

    So a single caller gets at most half of the places, and a caller that holds none still finds one when others do not.
    """

    def __init__(self, at_once: int, work: str, *, retry_after_s: int) -> None:
        self._at_once, self._work, self._retry_after_s = at_once, work, retry_after_s
        self._held: Counter[str] = Counter()
        self._lock = threading.Lock()

    @property
    def held(self) -> int:
        """Return the number of places that are held now."""
        return self._held.total()

    @contextmanager
    def take(self, client_id: str | None) -> Iterator[None]:
        """Hold a place during the block. With None, each call counts as another caller.

        Raises:
            Overloaded: no place is free for this caller.
        """
        name = client_id if client_id is not None else token_hex(8)
        with self._lock:
            own, total = self._held[name], self._held.total()
            if own >= self._at_once - total:
                limit = Limit(value=self._at_once, unit="at a time", remedy=f"try again later{hint(name)}")
                message = (
                    f"{total} {self._work} run already, {own} of yours; the rest is for others; the limit is {limit}"
                )
                raise Overloaded(message, retry_after_s=self._retry_after_s)
            self._held[name] += 1
        try:
            yield
        finally:
            with self._lock:
                self._held[name] -= 1
                self._held += Counter()  # drops callers with a count of 0
