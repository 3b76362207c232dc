"""Bounds of the calls over gRPC of one client, so that calls of others begin at once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from storage.errors import Overloaded
from storage.limit import Limit

_AT_ONCE: Final = 32
"""Calls of a client that are read and answered at a time. With 4,000 calls of one key under way, the p99 latency of
another key is 1.3 s at a limit of 64, 0.8 s at 32, 0.6 s at 16. 60 senders alone get 7 answers at 16 for 10 at 64."""

_LIMIT: Final = Limit(
    value=_AT_ONCE, unit="at a time", remedy="wait for answers before you send more, in larger batches"
)

_WAIT_S: Final = 30.0  # most clients time out after 10 s


@dataclass(slots=True)
class _Places:
    free: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))
    calls: int = 0  # calls that hold a slot or wait for one


class ClientCalls:
    """Concurrency limit of each client's calls; further calls wait in their order. For the event loop."""

    def __init__(self) -> None:
        self._places: dict[str, _Places] = {}

    @asynccontextmanager
    async def turn(self, client: str) -> AsyncIterator[None]:
        """Wait for a slot, and hold it during the block.

        Raises:
            Overloaded: no slot became free in time.
        """
        places = self._places.setdefault(client, _Places())
        places.calls += 1
        try:
            try:
                async with asyncio.timeout(_WAIT_S):
                    await places.free.acquire()
            except TimeoutError:
                raise Overloaded(f"{places.calls} calls of this client wait; the limit is {_LIMIT}") from None
            try:
                yield
            finally:
                places.free.release()
        finally:
            places.calls -= 1
            if not places.calls:
                del self._places[client]
