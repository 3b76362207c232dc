"""Which SQL runs, and which waits: a few queries at once, in threads that step back behind ingest."""

import asyncio
import contextvars
import os
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, Literal, ParamSpec, TypeVar

from storage.errors import Overloaded

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")

_MAX_WAITING: Final = 64  # a guess: some dashboards that are opened at the same time
_RETRY_AFTER_S: Final = 5  # a guess

_LOOK_S: Final = 0.2  # between two looks at whether who waits is still there; a guess

_NICENESS: Final = 10
"""A guess: where the processors are busy, a tenth of one for a query."""


class Turns:
    """Runs queries in threads of their own. Used on the event loop; `close` lets what runs come to its end."""

    def __init__(self, *, at_once: int, wait_s: float) -> None:
        self._wait_s = wait_s
        self._places = asyncio.Semaphore(at_once)
        self._threads = ThreadPoolExecutor(at_once, "sql", initializer=_step_back)
        self._waiting = 0

    @asynccontextmanager
    async def turn(self, has_left: Callable[[], Awaitable[bool]] | None = None) -> AsyncIterator[None]:
        """A place among those that run, during the block; whoever has left is waited for no longer.

        Raises:
            Overloaded: too many wait for one, or this one did for too long, or left.
        """
        if self._waiting >= _MAX_WAITING:
            raise Overloaded(f"{self._waiting} queries wait already; try again later", retry_after_s=_RETRY_AFTER_S)
        self._waiting += 1
        try:
            async with asyncio.timeout(self._wait_s):
                await self._place(has_left)
        except TimeoutError:
            raise Overloaded("other queries take all the time; try again later", retry_after_s=_RETRY_AFTER_S) from None
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._places.release()

    async def _place(self, has_left: Callable[[], Awaitable[bool]] | None) -> None:
        taking = asyncio.create_task(self._places.acquire())
        try:
            await _done(taking, has_left)
        except BaseException:  # raised again: the place is given back, also to who is cancelled
            if not taking.cancel():  # it was there just then
                self._places.release()
            raise

    async def run(
        self, ask: Callable[_Arguments, _Result], *arguments: _Arguments.args, **named: _Arguments.kwargs
    ) -> _Result:
        """What `ask` returns, in one of the threads."""
        context = contextvars.copy_context()
        call = partial(context.run, ask, *arguments, **named)
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    def close(self) -> None:
        """Start no query any more."""
        self._threads.shutdown(wait=False, cancel_futures=True)


async def _done(taking: asyncio.Task[Literal[True]], has_left: Callable[[], Awaitable[bool]] | None) -> None:
    while not (await asyncio.wait({taking}, timeout=_LOOK_S))[0]:
        if has_left is not None and await has_left():
            raise Overloaded("whoever asked has left", retry_after_s=_RETRY_AFTER_S)


def _step_back() -> None:
    if sys.platform == "linux":  # where a thread has a priority of its own
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), os.getpriority(os.PRIO_PROCESS, 0) + _NICENESS)
