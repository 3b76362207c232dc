"""Fair scheduling of clients: a few requests run at once, and the others wait, so that no client takes all the time."""

import asyncio
import contextvars
import os
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from secrets import token_hex
from typing import Final, ParamSpec, TypeVar

from storage.errors import Overloaded
from storage.limit import Limit
from storage.query.concurrency_limit import group_of, hint

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")

_MAX_WAITING: Final = 256  # a guess: several people open several dashboards at the same time
_OF_ONE_WAITING: Final = 32
_OF_GROUP_WAITING: Final = 128  # half of the queue
_RETRY_AFTER_S: Final = 5  # a guess

_LOOK_S: Final = 0.2  # between two checks whether a waiting client is still connected; a guess

_NICENESS: Final = 10
"""Added to the niceness of the query threads. A guess: on busy processors, a query gets a tenth of a processor."""


class FairScheduler:
    """Fair scheduler of requests: a number of slots, and a queue. Used on the event loop.

    A client is a key or an address. It has at most `of_one` slots, by default all but one, and `_OF_ONE_WAITING`
    requests in the queue. A free slot goes to the waiting client that has the fewest slots.

    The keys of a tenant form a group that competes like one client, because a tenant can create many keys. A group has
    at most twice the slots of a client and half of the queue; its keys take turns.
    """

    def __init__(self, *, at_once: int, wait_s: float, of_one: int | None = None, setting: str | None = None) -> None:
        self._wait_s = wait_s
        self._limit: Callable[[str], Limit] = lambda remedy: Limit(
            value=at_once, unit="at a time", setting=setting, remedy=remedy
        )
        self._free = at_once
        self._most_of_one = of_one or max(at_once - 1, 1)
        self._most_of_group = min(2 * self._most_of_one, max(at_once - 1, 1))
        self._running: Counter[str] = Counter()  # slots in use, by client
        self._groups: Counter[str] = Counter()  # slots in use, by group
        self._served: dict[str, int] = {}  # by client and group: the number (`_places`) of its latest slot
        self._places = 0  # slots given so far
        self._waiting: dict[asyncio.Future[None], str] = {}  # clients, in order of arrival

    @asynccontextmanager
    async def turn(
        self, has_left: Callable[[], Awaitable[bool]] | None = None, *, client_id: str | None = None
    ) -> AsyncIterator[None]:
        """Hold a slot during the block; stop waiting for it if the caller disconnects.

        Raises:
            Overloaded: the queue is full, the wait was too long, or the caller disconnected.
        """
        name = client_id if client_id is not None else token_hex(8)
        self._check_queue(name)
        place = asyncio.get_running_loop().create_future()
        self._waiting[place] = name
        try:
            self._admit()
            await self._wait(place, name, has_left)
            yield
        finally:
            self._waiting.pop(place, None)
            if not place.cancel():  # a slot was given, perhaps while this task was cancelled
                self._free += 1
                self._running[name] -= 1
                self._groups[group_of(name)] -= 1
                self._running += Counter()  # removes clients without slots
                self._groups += Counter()
                self._admit()

    async def _wait(
        self, place: "asyncio.Future[None]", client_id: str, has_left: Callable[[], Awaitable[bool]] | None
    ) -> None:
        if place.done():
            return
        try:
            async with asyncio.timeout(self._wait_s):
                while not (await asyncio.wait({place}, timeout=_LOOK_S))[0]:
                    if has_left is not None and await has_left():
                        raise Overloaded("the client has disconnected", retry_after_s=_RETRY_AFTER_S)
        except TimeoutError:
            limit = self._limit(f"try again later{hint(client_id)}")
            message = f"other requests took all the time for {self._wait_s:g} s; the limit is {limit}"
            raise Overloaded(message, retry_after_s=_RETRY_AFTER_S) from None

    def _check_queue(self, client_id: str) -> None:
        own = sum(name == client_id for name in self._waiting.values())
        group = group_of(client_id)
        if own >= _OF_ONE_WAITING:
            most, whose, explanation = _OF_ONE_WAITING, "requests of yours", hint(client_id)
        elif sum(group_of(name) == group for name in self._waiting.values()) >= _OF_GROUP_WAITING:
            most, whose, explanation = _OF_GROUP_WAITING, "requests of your tenant", ""
        elif len(self._waiting) >= _MAX_WAITING:
            most, whose, explanation = _MAX_WAITING, "requests", ""
        else:
            return
        remedy = f"send fewer at the same time, or try again later{explanation}"
        limit = Limit(value=most, unit=whose, remedy=remedy)
        raise Overloaded(f"no more may wait than {limit}", retry_after_s=_RETRY_AFTER_S)

    def _admit(self) -> None:
        """Give free slots to the group with fewest, and in it to the client with fewest.

        Among equals, the one whose last slot was the longest ago is next.
        """
        if not self._free:
            return
        present = {*self._running, *self._waiting.values()}
        present |= set(map(group_of, present))
        self._served = {name: at for name, at in self._served.items() if name in present}
        while self._free:
            ready = [
                (*self._rank(name), number, place)
                for number, (place, name) in enumerate(self._waiting.items())
                if self._may_run(name) and not place.done()
            ]
            if not ready:
                return
            place = min(ready)[-1]
            client_id = self._waiting.pop(place)
            group = group_of(client_id)
            self._free -= 1
            self._places += 1
            self._running[client_id] += 1
            self._groups[group] += 1
            self._served[client_id] = self._served[group] = self._places
            place.set_result(None)

    def _rank(self, client_id: str) -> tuple[int, int, int, int]:
        group = group_of(client_id)
        return self._groups[group], self._served.get(group, 0), self._running[client_id], self._served.get(client_id, 0)

    def _may_run(self, client_id: str) -> bool:
        return self._running[client_id] < self._most_of_one and self._groups[group_of(client_id)] < self._most_of_group


class QueryScheduler(FairScheduler):
    """Turns of SQL queries, which run in threads with lower priority than ingest. `close` waits for no query."""

    def __init__(self, *, at_once: int, wait_s: float) -> None:
        super().__init__(at_once=at_once, wait_s=wait_s, setting="sql_at_once")
        self._threads = ThreadPoolExecutor(at_once, "sql", initializer=_step_back)

    async def run(
        self, ask: Callable[_Arguments, _Result], *arguments: _Arguments.args, **named: _Arguments.kwargs
    ) -> _Result:
        """Run `ask` in one of the threads, and return its result."""
        context = contextvars.copy_context()
        call = partial(context.run, ask, *arguments, **named)
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    def close(self) -> None:
        """Start no further queries."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _step_back() -> None:
    if sys.platform == "linux":  # only Linux has a priority for each thread
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), os.getpriority(os.PRIO_PROCESS, 0) + _NICENESS)
