"""The thread that deletes and erases what clients requested to delete."""

import logging
import threading
from typing import Final

from storage.errors import Overloaded
from storage.upkeep.deletions import Deletion, DeletionCriteria, Deletions
from storage.upkeep.erasure import Erasure

log = logging.getLogger(__name__)

_PAUSE_S: Final = 2.0
"""Pause after a step that failed, mostly because of readers. A guess."""

_LONG_PAUSE_S: Final = 30.0  # after a bug
_LOOK_S: Final = 60.0  # to pick up deletions that were requested without a notification

WAIT_S: Final = 3.0
"""Time that a request to delete waits for the rows to be gone, before it is answered with the progress so far. A guess:
clients time out after five seconds or more."""


class Eraser:
    """Thread that processes deletions step by step."""

    def __init__(self, deletions: Deletions, erasure: Erasure) -> None:
        self.deletions = deletions
        self.erasure = erasure
        self._stopping = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="eraser", daemon=True)

    def start(self) -> None:
        """Continue from where the last process stopped."""
        self._thread.start()

    def close(self) -> None:
        """Stop after the step under way."""
        self._stopping.set()
        self._wake.set()
        self._thread.join()
        self.erasure.close()

    def delete(self, criteria: DeletionCriteria, *, now_us: int, created_by: str | None) -> Deletion:
        """Request a deletion of traces; return once their rows are deleted, or after `WAIT_S` with the progress so far.

        Raises:
            Overloaded: too many deletions are under way, or the database cannot be written now.
        """
        deletion = self.deletions.request(criteria, now_us=now_us, created_by=created_by)
        self._wake.set()
        return self.deletions.wait(deletion, WAIT_S)

    def _run(self) -> None:
        while True:
            self._wake.clear()
            if self._stopping.is_set():  # after the clear, or the wake-up of `close` would be lost
                return
            pause_s = _LOOK_S
            try:
                if self.erasure.work():
                    continue
            except Overloaded as error:
                log.debug("deletions pause: %s", error)
                pause_s = _PAUSE_S
            except Exception:  # noqa: BLE001 - the top of a thread: a bug must not end deleting for good
                log.exception("a step of a deletion failed; will retry")
                pause_s = _LONG_PAUSE_S
            self._wake.wait(pause_s)
