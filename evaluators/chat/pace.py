"""When requests may leave: at even distances, and not while the endpoint wants a pause."""

import asyncio
import time
from typing import Final

_LONGEST_PAUSE_S: Final = 3600.0
"""What an endpoint may ask for. A guess."""


class RateLimit:
    """Lets requests pass one at a time. Without a limit, at once."""

    def __init__(self, per_minute: float | None) -> None:
        self._distance_s = 60 / per_minute if per_minute else 0.0
        self._next_s = 0.0
        self._resumes_s = 0.0

    @property
    def pause_s(self) -> float:
        """How long nothing may leave from now on; 0 where no pause was asked for."""
        return max(self._resumes_s - time.monotonic(), 0.0)

    def pause(self, wanted_s: float) -> None:
        """Let nothing leave for so long; a pause that ends later stays."""
        self._resumes_s = max(self._resumes_s, time.monotonic() + min(wanted_s, _LONGEST_PAUSE_S))

    async def turn(self) -> None:
        """Wait for one's turn; turns are given out in the order of asking. It may come in a pause."""
        if not self._distance_s:
            return
        now_s = time.monotonic()
        turn_s = max(self._next_s, now_s)
        self._next_s = turn_s + self._distance_s
        await asyncio.sleep(turn_s - now_s)
