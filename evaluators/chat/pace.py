"""Requests at even distances."""

import asyncio
import time


class Pace:
    """Lets requests pass one at a time. Without a limit, at once."""

    def __init__(self, per_minute: float | None) -> None:
        self._distance_s = 60 / per_minute if per_minute else 0.0
        self._next_s = 0.0

    async def turn(self) -> None:
        """Wait for one's turn; turns are given out in the order of asking."""
        if not self._distance_s:
            return
        now_s = time.monotonic()
        turn_s = max(self._next_s, now_s)
        self._next_s = turn_s + self._distance_s
        await asyncio.sleep(turn_s - now_s)
