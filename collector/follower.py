"""Shared parts of the threads that process stored data: priority of ingest, waiting for them, and their loop."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from storage.errors import Damaged, Overloaded, WriteConflict

LONGEST_YIELD_S: Final = 5.0
"""Longest time for which a follower lets ingest go first before its next step: senders that never pause must not stop
it. A guess."""

FAIR_AFTER_S: Final = 60.0
"""Longest peak of load that is ingested first and matched later. A guess."""

_LOOK_S: Final = 0.05


class CatchUpBarrier:
    """Waiting until a follower has seen all data that was stored at the call. Thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._answered = self._waiting = 0
        self.requested = 0
        """Calls of `wait` so far. Read it before a search for new data, which may miss data that is stored later."""

    @property
    def is_awaited(self) -> bool:
        """Return True while a caller waits and is not answered."""
        return self._waiting > 0 and self.requested > self._answered

    def wait(self, timeout_s: float, wake: Callable[[], None]) -> bool:
        """Wait until the follower, which `wake` wakes, saw all that is stored now; False after the timeout."""
        with self._changed:
            self.requested += 1
            self._waiting += 1
            mine = self.requested
        try:
            wake()  # not under the lock: it may take one that a follower holds in `tell`
            with self._changed:
                return self._changed.wait_for(lambda: self._answered >= mine, timeout_s)
        finally:
            with self._changed:
                self._waiting -= 1

    def tell(self, requested: int) -> None:
        """Note that all is seen that was stored at the time of the first `requested` calls of `wait`."""
        with self._changed:
            self._answered = requested
            self._changed.notify_all()


class WaitLog:
    """Log of work that waits: one line for each reason, however often it is tried meanwhile. For one thread."""

    def __init__(self, log: logging.Logger, text: str) -> None:
        """Set up with the log line, with %s for the reason."""
        self._log, self._text = log, text
        self._reason = ""

    def note(self, reason: object, *, quietly: bool = False) -> None:
        """Log a reason, unless it is the previous one."""
        if not quietly and str(reason) != self._reason:
            self._log.warning(self._text, reason)
        self._reason = str(reason)

    def end(self) -> None:
        """Note that the work goes on."""
        self._reason = ""


class FollowerThread:
    """Thread that repeats one work until it is closed: failures are logged, and it is tried again."""

    def __init__(
        self,
        go_on: Callable[[], None],
        *,
        name: str,
        doing: str,
        log: logging.Logger,
        pause_s: float,
        waits_first: bool = False,
    ) -> None:
        """Set up the thread. `go_on` returns or raises to be called again after a pause.

        `doing` is its name in the log.
        """
        self._go_on = go_on
        self._doing = doing
        self._log = log
        self._pause_s = pause_s
        self._waits_first = waits_first
        self._pauses = WaitLog(log, f"{doing} pauses: %s")
        self.stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self, wake: Callable[[], None] = lambda: None) -> None:
        """Stop, and wait for the end of the step under way; `wake` ends what the thread may wait for."""
        self.stopping.set()
        wake()
        self._thread.join()

    def _run(self) -> None:
        if self._waits_first:
            self.stopping.wait(self._pause_s)
        while not self.stopping.is_set():
            self._try()
            self.stopping.wait(self._pause_s)

    def _try(self) -> None:
        try:
            self._go_on()
            self._pauses.end()
        except (Damaged, WriteConflict, Overloaded) as error:
            self._pauses.note(error, quietly=self.stopping.is_set())
        except Exception:  # noqa: BLE001 - the top of a thread: a bug must not end it for good
            self._log.exception("%s failed; will retry", self._doing)


class IngestPriority:
    """Priority of ingest, except for a follower that is behind for a minute: from then on both get their share.

    Ingest then refuses requests beyond its capacity, and senders retry; a follower would fall behind without limit.
    """

    def __init__(self, is_behind: Callable[[], bool]) -> None:
        self._is_behind = is_behind
        self._caught_up_s = time.monotonic()

    def wait(self, stopping: threading.Event) -> None:
        """Wait while ingest is behind, for some seconds at most, or until the follower is to stop."""
        began_s = time.monotonic()
        if began_s - self._caught_up_s > FAIR_AFTER_S:
            return
        while self._is_behind() and time.monotonic() - began_s < LONGEST_YIELD_S and not stopping.wait(_LOOK_S):
            pass

    def caught_up(self) -> None:
        """Note that the follower has seen everything stored."""
        self._caught_up_s = time.monotonic()
