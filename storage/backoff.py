"""Exponential backoff."""

import random
from typing import Final

_MOST_DOUBLINGS: Final = 30
_JITTER: Final = random.Random()  # noqa: S311 - no secret; the global generator stays untouched for code that seeds it


def backoff_s(failures: int, *, first_s: float, longest_s: float) -> float:
    """Return the wait in seconds after `failures` in a row; it doubles with each failure, up to `longest_s`.

    Up to half of it is taken off at random, so that clients that failed together do not retry together.
    """
    doubled_s = first_s * (1 << min(max(failures - 1, 0), _MOST_DOUBLINGS))
    return min(doubled_s, longest_s) * _JITTER.uniform(0.5, 1.0)
