"""Parts of background threads: priority of ingest, a barrier for callers, their loop, and the log of its failures."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from storage.errors import Damaged, Overloaded, WriteConflict

LONGEST_YIELD_S: Final = 5.0
"""Maximum time per step for which a follower gives way to ingest, so that senders that never pause do not stall it. A
guess."""

FAIR_AFTER_S: Final = 60.0
"""Time behind after which a follower no longer gives way to ingest. A guess."""

_LOOK_S: Final = 0.05


class CatchUpBarrier:
    """Barrier for callers that wait until a follower has processed all data stored before their call. Thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._answered = self._waiting = 0
        self.requested = 0
        """Number of calls of `wait`. A follower must read it before it looks for new data, and pass it to `tell`."""

    @property
    def is_awaited(self) -> bool:
        """Return True while a caller waits and is not answered."""
        return self._waiting > 0 and self.requested > self._answered

    def wait(self, timeout_s: float, wake: Callable[[], None]) -> bool:
        """Wake the follower, and wait until it has processed all that is stored now; return False on timeout."""
        with self._changed:
            self.requested += 1
            self._waiting += 1
            mine = self.requested
        try:
            wake()  # not under the lock: `wake` may take a lock that a follower holds while it calls `tell`
            with self._changed:
                return self._changed.wait_for(lambda: self._answered >= mine, timeout_s)
        finally:
            with self._changed:
                self._waiting -= 1

    def tell(self, requested: int) -> None:
        """Release the first `requested` callers of `wait`: all that was stored when they called is processed."""
        with self._changed:
            self._answered = requested
            self._changed.notify_all()


class WaitLog:
    """Log of work that must wait: a reason is logged if it differs from that of the last attempt. For one thread."""

    def __init__(self, log: logging.Logger, text: str) -> None:
        """Set up with the log line, with %s for the reason."""
        self._log, self._text = log, text
        self._reason = ""

    def note(self, reason: object, *, quietly: bool = False) -> None:
        """Log a reason unless it is the previous one; with `quietly`, only remember it."""
        if not quietly and str(reason) != self._reason:
            self._log.warning(self._text, reason)
        self._reason = str(reason)

    def end(self) -> None:
        """Note that the work goes on."""
        self._reason = ""


class FollowerThread:
    """Thread that repeats a step until it is closed; a step that fails is logged and retried."""

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
        """Set up the thread. `go_on` is the step: after it returns or raises, it is called again after `pause_s`.

        `doing` names it in the log; with `waits_first`, the first call comes after a pause, too.
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
        """Stop after the current step, and join the thread; `wake` must end any wait inside of a step."""
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
    """Priority of ingest over a follower, until the follower has been behind for a minute; from then on both run.

    Ingest is bounded: it refuses requests beyond its capacity, and senders retry. A follower that always gave way would
    fall behind without limit.
    """

    def __init__(self, is_behind: Callable[[], bool]) -> None:
        self._is_behind = is_behind
        self._caught_up_s = time.monotonic()

    def wait(self, stopping: threading.Event) -> None:
        """Give way while ingest is behind, for `LONGEST_YIELD_S` at most, and not if the follower itself is behind."""
        began_s = time.monotonic()
        if began_s - self._caught_up_s > FAIR_AFTER_S:
            return
        while self._is_behind() and time.monotonic() - began_s < LONGEST_YIELD_S and not stopping.wait(_LOOK_S):
            pass

    def caught_up(self) -> None:
        """Note that the follower has seen everything stored."""
        self._caught_up_s = time.monotonic()
