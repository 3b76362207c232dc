"""What an earlier process left to be evaluated, as the log tells it."""

import logging
from typing import Final

from collector.live.jobs.work.retry_policy import Clock
from storage.judging.jobs import Jobs

log = logging.getLogger(__name__)

_EVERY_S: Final = 10.0
"""A guess: somebody who waits for a restart looks at the log."""


class LeftOver:
    """Tells at the start how many evaluations wait, every ten seconds how many of them are left, and when none is."""

    def __init__(self, jobs: Jobs, clock: Clock) -> None:
        self._jobs = jobs
        self._clock = clock
        self._began_s = self._next_s = 0.0
        self._until: int | None = None  # the number of the last job that waited; None: nothing is left to be told
        self._count = 0

    def begin(self) -> None:
        """Look at what waits."""
        self._count, last_job = self._jobs.left()
        self._began_s = self._clock()
        self._next_s = self._began_s + _EVERY_S
        if self._count:
            self._until = last_job
            log.info("%d evaluations wait from before this start, and are taken up", self._count)

    def tell(self, *, is_idle: bool) -> None:
        """Tell how many of them are left, if it is time to, or nothing is to be done any more."""
        is_time = self._clock() >= self._next_s
        if self._until is None or not (is_idle or is_time):
            return
        left, _ = self._jobs.left(self._until)
        took_s = self._clock() - self._began_s
        if not left:
            log.info("all %d evaluations that waited at the start are made, after %.1f s", self._count, took_s)
            self._until = None
        elif is_time:
            log.info("%d of %d evaluations that waited at the start are left, after %.0f s", left, self._count, took_s)
            self._next_s = self._clock() + _EVERY_S
