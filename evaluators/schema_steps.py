"""Bounds of JSON Schema validation: references and alternatives can double the work at each level."""

import threading
import time
from typing import Final

MAX_STEPS: Final = 300_000
"""Maximum of keywords checked and values compared per validation. A guess: two seconds; no sensible schema needs it."""

MAX_SECONDS: Final = 5.0
"""Maximum of CPU seconds per validation, because one step may read a large value. A guess."""


class TooManySteps(Exception):
    """The schema takes more than its steps or its time."""


class Steps:
    """Budget of steps and CPU time that several validations share."""

    def __init__(self, steps: int = MAX_STEPS, seconds: float = MAX_SECONDS) -> None:
        self._steps, self._seconds = steps, seconds
        self._left, self._left_s = steps, seconds

    def __enter__(self) -> None:
        """Count the steps of this thread from now on."""
        self._until_s = time.thread_time() + self._left_s
        self._outer = getattr(_counted, "steps", None)
        _counted.steps = self

    def __exit__(self, *_: object) -> None:
        _counted.steps = self._outer
        self._left_s = self._until_s - time.thread_time()

    def count(self) -> None:
        """Count a step.

        Raises:
            TooManySteps: the limit of steps or of time is reached.
        """
        self._left -= 1
        if self._left < 0 or time.thread_time() > self._until_s:
            raise TooManySteps(
                f"this schema takes too many steps: more than {self._steps}, or than {self._seconds:g} s (fixed);"
                " name fewer alternatives, and fewer references to them"
            )


_counted = threading.local()


def count_step() -> None:
    """Count a step against the budget that is active in this thread, if any.

    Raises:
        TooManySteps: as `Steps.count`.
    """
    steps: Steps | None = getattr(_counted, "steps", None)
    if steps is not None:
        steps.count()
