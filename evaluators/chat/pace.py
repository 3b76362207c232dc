"""Rate limit of requests to a model, and a share of the processor for each connection."""

import asyncio
import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import Final, TypeVar

from storage.records import number_in

_LONGEST_PAUSE_S: Final = 3600.0
"""The longest pause that an endpoint may request. A guess."""


class RateLimit:
    """Rate limiter: spaces requests evenly. Without a limit, they do not wait."""

    def __init__(self, per_minute: float | None) -> None:
        self._distance_s = 60 / per_minute if per_minute else 0.0
        self._next_s = 0.0
        self._resumes_s = 0.0

    @property
    def pause_s(self) -> float:
        """Return the rest of the current pause in seconds; 0 without a pause."""
        return max(self._resumes_s - time.monotonic(), 0.0)

    def pause(self, duration_s: float) -> None:
        """Hold requests back for so long; a current pause that ends later stays."""
        self._resumes_s = max(self._resumes_s, time.monotonic() + min(duration_s, _LONGEST_PAUSE_S))

    async def turn(self) -> None:
        """Wait for a turn; turns are given in the order of calls. A turn may fall into a pause."""
        if not self._distance_s:
            return
        now_s = time.monotonic()
        turn_s = max(self._next_s, now_s)
        self._next_s = turn_s + self._distance_s
        await asyncio.sleep(turn_s - now_s)


Outcome = TypeVar("Outcome")

_RESTS: Final = 3
"""Pause after a task, as a multiple of its duration: 3 leaves at most a quarter of one processor. A guess."""


class Share:
    """Limit of one connection's share of the processor, within one event loop."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._next_s = 0.0

    async def spend(self, work: Callable[[], Outcome]) -> Outcome:
        """Run the work in a thread, after earlier work; the event loop goes on meanwhile."""
        async with self._turn:
            await asyncio.sleep(max(self._next_s - time.monotonic(), 0.0))
            began_s = time.monotonic()
            try:
                return await asyncio.to_thread(work)
            finally:
                ended_s = time.monotonic()
                self._next_s = ended_s + _RESTS * (ended_s - began_s)


RETRYABLE = frozenset({"timeout", "unreachable", "rate_limited", "unavailable"})
"""The kinds of failure after which a retry may succeed."""

NOT_SERVED = "not_served"
"""The endpoint refuses the key, the permission, the quota or the model, whatever the request is."""

ANOTHER_MAY_ANSWER = RETRYABLE | {NOT_SERVED}
"""The kinds of failure that a connection causes, not the request: after them, a fallback connection is used."""


def wait_asked_for(headers: Mapping[str, str], now_s: float) -> float | None:
    """Return the seconds that `Retry-After` (or `retry-after-ms`) asks to wait; None if it is missing or nonsense."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("retry-after")
    seconds = _number(text)
    if seconds is not None or text is None:
        return seconds
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now_s)
    except (ValueError, OverflowError):
        return None


def _number(text: str | None) -> float | None:
    number = number_in(text or "")
    return None if number is None or number < 0 else number
