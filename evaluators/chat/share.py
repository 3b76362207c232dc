"""A share of the processor: work that takes long is done beside the event loop, one piece at a time, with rests."""

import asyncio
import time
from collections.abc import Callable
from typing import Final, TypeVar

Found = TypeVar("Found")

_RESTS: Final = 3
"""Times as long as a piece of work took, before the next one begins: a quarter of one processor at most. A guess."""


class Share:
    """What one connection may take of the processor. For one event loop."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._next_s = 0.0

    async def spend(self, work: Callable[[], Found]) -> Found:
        """What the work comes to, once all that was asked for earlier is done; the event loop goes on meanwhile."""
        async with self._turn:
            await asyncio.sleep(max(self._next_s - time.monotonic(), 0.0))
            began_s = time.monotonic()
            try:
                return await asyncio.to_thread(work)
            finally:
                ended_s = time.monotonic()
                self._next_s = ended_s + _RESTS * (ended_s - began_s)
