"""Delays of the answers to refused gRPC calls, so that a client whose calls are all refused cannot send many."""

import asyncio
import time
from collections import OrderedDict
from typing import Final

_PER_S: Final = 50.0
"""Refused calls of an address that are answered in a second. Without delays, 150 connections with 40 calls each got 700
refusals a second, which used up the event loop, and other calls waited behind theirs in gRPC's core."""

_BURST_S: Final = 1.0  # of refusals that are answered at once; a guess
_LONGEST_S: Final = 30.0  # longest delay of an answer; most clients time out after 10 s
_REMEMBERED: Final = 10_000
_MOST_WAITING: Final = 10_000
"""Most delayed calls of all addresses; more are answered at once. Each takes about 20 kB, most of it in gRPC."""


class Refusals:
    """Rate limiter of the answers to refused calls, by address. For the event loop."""

    def __init__(self) -> None:
        self._next_s: OrderedDict[str, float] = OrderedDict()  # by address: when its next refusal is due
        self._waiting = 0

    async def wait(self, address: str) -> None:
        """Wait until a refused call of an address may be answered."""
        now_s = time.monotonic()
        due_s = max(self._next_s.get(address, 0.0), now_s - _BURST_S) + 1 / _PER_S
        self._next_s[address] = due_s = min(due_s, now_s + _LONGEST_S)
        self._next_s.move_to_end(address)
        if len(self._next_s) > _REMEMBERED:
            self._next_s.popitem(last=False)
        if due_s <= now_s or self._waiting >= _MOST_WAITING:
            return
        self._waiting += 1
        try:
            await asyncio.sleep(due_s - now_s)
        finally:
            self._waiting -= 1
