"""Progress of long work, such as a backup or a start, for operators, and the current work of the writer."""

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias


class ThreadWork:
    """Duration of the current attempt of a thread. Only that thread calls `paused`; any thread may read `seconds`."""

    def __init__(self, thread: threading.Thread) -> None:
        self._thread = thread
        self._since_s: float | None = None

    @property
    def seconds(self) -> float | None:
        """Return the duration of the current attempt; None while waiting, infinite if the thread is not alive."""
        if not self._thread.is_alive():
            return math.inf
        since_s = self._since_s
        return None if since_s is None else time.monotonic() - since_s

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Count the block as waiting; a new attempt begins at its end."""
        self._since_s = None
        yield
        self._since_s = time.monotonic()


@dataclass(frozen=True, slots=True, kw_only=True)
class StartStep:
    """A step of opening a data directory, and how much of it is done."""

    name: str
    done: Callable[[], int] = lambda: 0
    total: int | None = None  # None: unknown


Report: TypeAlias = Callable[[StartStep], None]
"""Receives each step as it begins."""


def no_report(_: StartStep) -> None:
    """Ignore the report of a step."""


@contextmanager
def logged(log: logging.Logger, what: str) -> Iterator[None]:
    """Log the beginning and the end of the block, with its duration, or its failure."""
    log.info("%s begins", what)
    began_s = time.monotonic()
    try:
        yield
    except BaseException as error:  # raised again: only the log says more
        log.warning("%s failed after %.1f s: %s", what, time.monotonic() - began_s, error)
        raise
    log.info("%s is done after %.1f s", what, time.monotonic() - began_s)
