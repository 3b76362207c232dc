"""Whether a connection is asked: not while it is down. Time is an argument."""

from collections.abc import Callable
from dataclasses import dataclass, field

_FAILURES_IN_A_ROW = 3
"""So many open the breaker, since one prompt alone may be what an endpoint is too slow for. A guess."""


@dataclass(slots=True, kw_only=True)
class Breaker:
    """Counts the failures of a connection since it answered last.

    Once it has failed often enough, or said itself that it wants a pause, it is down: nothing is asked until a pause is
    over, then one job at a time, until one is answered. Each pause is longer than the one before.
    """

    wait_s: Callable[[int, float | None], float]  # after so many failures, and what the endpoint asked for
    failures: int = field(default=0, init=False)
    pauses: int = field(default=0, init=False)
    resumes_s: float = field(default=0.0, init=False)
    down_since_s: float | None = field(default=None, init=False)
    asked_until_s: float = field(default=0.0, init=False)  # the end of the pause that the endpoint itself wants

    def room(self, now_s: float, in_flight: int, running: int) -> int:
        """How many more jobs may be begun."""
        if self.down_since_s is not None:
            in_flight = 0 if now_s < self.resumes_s else 1
        return max(in_flight - running, 0)

    def is_down(self, now_s: float) -> bool:
        """Whether nothing is asked at this moment."""
        return self.down_since_s is not None and now_s < self.resumes_s

    def answered(self, now_s: float) -> None:
        """It works; that does not end a pause that it asked for, since what was under way then is answered in it."""
        if now_s < self.asked_until_s:
            return
        self.failures = self.pauses = 0
        self.down_since_s = None

    def failed(self, now_s: float, *, asked_s: float | None, asks_for_pause: bool) -> None:
        """It did not answer."""
        self.failures += 1
        if self.down_since_s is None and not asks_for_pause and self.failures < _FAILURES_IN_A_ROW:
            return
        if self.down_since_s is None:
            self.down_since_s = now_s
        if now_s >= self.resumes_s:  # of several that fail together, the first one makes the pause longer
            self.pauses += 1
            self.resumes_s = now_s + self.wait_s(self.pauses, asked_s)
        elif asked_s is not None:
            self.resumes_s = max(self.resumes_s, now_s + self.wait_s(self.pauses, asked_s))
        if asked_s is not None:
            self.asked_until_s = self.resumes_s

    def down_for_s(self, now_s: float) -> float | None:
        """Since when it is down; None while it is not."""
        return None if self.down_since_s is None else now_s - self.down_since_s
