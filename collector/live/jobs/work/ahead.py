"""Jobs claimed before they can begin, so that executors never idle while the ledger waits for its turn."""

import math
import threading
from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Final

from storage.judging.jobs import Job

_MOST: Final = 4_096
"""Most jobs claimed ahead. A guess: a fast endpoint answers as many in some ten seconds."""

_TURNS: Final = 2.5
"""Turns of the ledger that the jobs must bridge: one may have begun before there was room, and the next be longer."""

_KEPT: Final = 0.9
"""The share of an average that one more measurement leaves. A guess."""


class ClaimedAhead:
    """Claimed jobs in their order. Thread-safe.

    Their number follows measurements: a turn of the ledger, from the check for room to the claim, takes 15 ms on a
    quiet machine and seconds on a busy one, and an evaluation milliseconds or minutes.
    """

    def __init__(self) -> None:
        self._jobs: deque[Job] = deque()
        self._lock = threading.Lock()
        self._prepared = 0  # number of first jobs that `coming` returned
        self._turn_s = 0.0
        self._evaluation_s: float | None = None

    def __len__(self) -> int:
        return len(self._jobs)

    def room(self, in_flight: int) -> int:
        """Return how many more jobs may be claimed ahead of `in_flight`; negative if too many are."""
        with self._lock:
            if self._evaluation_s is None:
                return -len(self._jobs)
            ends_in_a_turn = in_flight * self._turn_s / max(self._evaluation_s, 1e-3)
            return min(math.ceil(_TURNS * ends_in_a_turn), _MOST) - len(self._jobs)

    def add(self, jobs: Sequence[Job]) -> None:
        """Append jobs."""
        with self._lock:
            self._jobs.extend(jobs)

    def note_turn(self, seconds: float) -> None:
        """Note how long a turn took; a long one counts for a while."""
        with self._lock:
            self._turn_s = max(seconds, _KEPT * self._turn_s)

    def note_end(self, seconds: float) -> None:
        """Note how long an evaluation that has a result took."""
        with self._lock:
            before_s = seconds if self._evaluation_s is None else self._evaluation_s
            self._evaluation_s = _KEPT * before_s + (1 - _KEPT) * seconds

    def take(self, most: int) -> list[Job]:
        """Remove and return the oldest jobs, at most `most`."""
        with self._lock:
            taken = [self._jobs.popleft() for _ in range(min(max(most, 0), len(self._jobs)))]
            self._prepared = max(self._prepared - len(taken), 0)
            return taken

    def coming(self, most: int) -> list[Job]:
        """Return the next jobs that were not returned here before, at most `most`; they stay."""
        with self._lock:
            jobs = list(islice(self._jobs, self._prepared, self._prepared + max(most, 0)))
            self._prepared += len(jobs)
            return jobs
