"""What all threads share that follow what is stored: they let ingest go first, and tell when they have caught up."""

import threading
import time
from collections.abc import Callable
from typing import Final

PATIENCE_S: Final = 5.0
"""So long a follower lets ingest go first before its next step, and no longer: senders that never pause must not keep
it from going on. A guess."""

_LOOK_S: Final = 0.05


class CaughtUp:
    """Lets others wait until a follower has seen all that there was when they asked. Safe to use from any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._answered = 0
        self.asked = 0
        """Questions so far. A follower reads it before it looks: what comes after that, the look may miss."""

    @property
    def is_awaited(self) -> bool:
        """Whether somebody waits."""
        return self.asked > self._answered

    def wait(self, timeout_s: float, wake: Callable[[], None]) -> bool:
        """Wait until the follower, which `wake` wakes, saw all that there is now; False when that took too long."""
        with self._changed:
            self.asked += 1
            mine = self.asked
        wake()  # not under the lock: it may take one that a follower holds when it tells
        with self._changed:
            return self._changed.wait_for(lambda: self._answered >= mine, timeout_s)

    def tell(self, asked: int) -> None:
        """All was seen that there was when so many questions had been asked."""
        with self._changed:
            self._answered = asked
            self._changed.notify_all()


def let_ingest_go_first(is_behind: Callable[[], bool], stopping: threading.Event) -> None:
    """Wait while ingest is behind, for some seconds at most, or until the follower is to stop."""
    deadline_s = time.monotonic() + PATIENCE_S
    while is_behind() and time.monotonic() < deadline_s and not stopping.wait(_LOOK_S):
        pass
