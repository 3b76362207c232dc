"""Work that takes a while: such as a backup, which operators should hear of, and what the writer is at."""

import logging
import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


class ThreadWork:
    """What a thread is at: for how long, unless it waits. For that thread; `seconds` may be asked by any."""

    def __init__(self, thread: threading.Thread) -> None:
        self._thread = thread
        self._since_s: float | None = None

    @property
    def seconds(self) -> float | None:
        """For how long the attempt has been under way; None while it waits, endless once the thread has ended."""
        if not self._thread.is_alive():
            return math.inf
        since_s = self._since_s
        return None if since_s is None else time.monotonic() - since_s

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Wait during the block; with its end another attempt begins."""
        self._since_s = None
        yield
        self._since_s = time.monotonic()


@contextmanager
def logged(log: logging.Logger, what: str) -> Iterator[None]:
    """Say in the log that the block begins, and how long it took, or that it failed."""
    log.info("%s begins", what)
    began_s = time.monotonic()
    try:
        yield
    except BaseException as error:  # raised again: only the log says more
        log.warning("%s failed after %.1f s: %s", what, time.monotonic() - began_s, error)
        raise
    log.info("%s is done after %.1f s", what, time.monotonic() - began_s)
