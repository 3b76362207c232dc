"""Histograms of durations."""

import threading
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

QUICK_S: Final = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Histogram bounds for operations of milliseconds, such as a commit."""

SLOW_S: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0)
"""Histogram bounds for operations of seconds, such as a request to a model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Histogram of durations: counts up to each bound, total count, and sum in seconds."""

    up_to: Sequence[tuple[float, int]]
    count: int
    sum_s: float


class Stopwatch:
    """Collector of a histogram of durations. Thread-safe."""

    def __init__(self, bounds_s: Sequence[float]) -> None:
        self._bounds_s = bounds_s
        self._counts = [0] * (len(bounds_s) + 1)
        self._sum_s = 0.0
        self._lock = threading.Lock()

    def add(self, seconds: float) -> None:
        """Count a duration."""
        with self._lock:
            self._counts[bisect_left(self._bounds_s, seconds)] += 1
            self._sum_s += seconds

    @property
    def times(self) -> Times:
        """Return the counts so far."""
        with self._lock:
            counts, sum_s = list(accumulate(self._counts)), self._sum_s
        return Times(up_to=tuple(zip(self._bounds_s, counts, strict=False)), count=counts[-1], sum_s=sum_s)
