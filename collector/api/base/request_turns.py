"""Schedulers of requests that run in threads, and of large bodies, which a thread parses."""

import asyncio
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from starlette.requests import Request

from collector.access.caller import Caller
from collector.api.base.fair_scheduler import FairScheduler

_Parsed = TypeVar("_Parsed")

SMALL_BYTES: Final = 64 << 10
"""Larger bodies are parsed in a thread. A guess: the slowest body of this size, of empty lists, takes some 10 ms."""

_READS_AT_ONCE: Final = 16
_READS_OF_ONE: Final = max(2, os.cpu_count() or 1)
_CHANGES_AT_ONCE: Final = 16
_CHANGES_OF_ONE: Final = 8
"""Reads and changes that run at once, in all and per client. Both totals together are below the 40 threads of the pool.
DuckDB uses all processors for each read. Measured on two processors, while one key searched over 60 connections: pages
of another key took up to 9.9 s without a limit per client, 2.8 s with four reads each, and 1.5 s with two. The limits
of changes are guesses: changes mostly wait for their commit."""

_LARGE_AT_ONCE, _LARGE_OF_ONE = 4, 2
"""Bodies of more than 64 KiB that are parsed, checked and stored at once, in all and per client. Guesses: 4 MB of
60,000 items take 70 MB and 3 s."""

_WAIT_S: Final = 30.0
"""Maximum wait. A guess: browsers and programs wait that long."""


class BodyParser:
    """Parser of large bodies in a thread: one body per client at a time, then a pause as long as its parsing."""

    def __init__(self) -> None:
        self._turns = FairScheduler(at_once=8, of_one=1, wait_s=30)  # guesses
        self._thread = ThreadPoolExecutor(1, "bodies")

    async def parse(self, body: bytes, request: Request, parse: Callable[[bytes], _Parsed]) -> _Parsed:
        """Return the result of `parse` for a body."""
        if len(body) <= SMALL_BYTES:
            return parse(body)
        caller: Caller = request.state.caller
        async with self._turns.turn(request.is_disconnected, client_id=caller.client):
            began_s = time.monotonic()
            try:
                return await asyncio.get_running_loop().run_in_executor(self._thread, parse, body)
            finally:
                await asyncio.sleep(time.monotonic() - began_s)


class RouteSchedulers:
    """Schedulers of requests that run in threads: one each for reads, changes and large bodies, and one that parses."""

    def __init__(self) -> None:
        self.reads = FairScheduler(at_once=_READS_AT_ONCE, of_one=_READS_OF_ONE, wait_s=_WAIT_S)
        self.changes = FairScheduler(at_once=_CHANGES_AT_ONCE, of_one=_CHANGES_OF_ONE, wait_s=_WAIT_S)
        self.large = FairScheduler(at_once=_LARGE_AT_ONCE, of_one=_LARGE_OF_ONE, wait_s=_WAIT_S)
        self.bodies = BodyParser()
