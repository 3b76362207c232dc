"""Room on the disk of the database: what may be written while there is little, and a reserve for a start."""

import logging
import os
import shutil
import threading
import time
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

_LOOK_S: Final = 0.05
"""So long what the disk has left counts as known. A guess: in that time little comes beside what is kept free."""
_CHECKPOINT_BYTES: Final = 12 << 20
"""What a checkpoint writes beside the log: the last row group of each table that changed, and metadata. A
guess, which trials on full disks did not refute."""
RESERVE_NAME: Final = "reserve"
_RESERVE_SHARE: Final = 8  # the reserve is made while the disk has so many times its size


class DiskRoom:
    """The disk of one directory. Safe to use from any thread."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._reserve = directory / RESERVE_NAME
        self._reserve_bytes = 0  # until a server asks for one
        self._lock = threading.Lock()
        self._free_bytes, self._look_again_s = 0, 0.0
        self._has_reserve = self._reserve.exists()

    @property
    def free_bytes(self) -> int:
        """The free bytes of a moment ago, because each call of the system takes a while."""
        now_s = time.monotonic()
        with self._lock:
            if now_s >= self._look_again_s:
                self._free_bytes, self._look_again_s = shutil.disk_usage(self._directory).free, now_s + _LOOK_S
            return self._free_bytes

    def allows_checkpoint(self, log_bytes: int) -> bool:
        """Tell whether a log of so many bytes can be moved into the file."""
        return self.free_bytes >= 2 * log_bytes + _CHECKPOINT_BYTES

    def release_reserve(self) -> None:
        """Give the reserve to a start that finds less room than that."""
        if self._has_reserve and self.free_bytes < self._reserve.stat().st_size:
            self._reserve.unlink(missing_ok=True)
            self._has_reserve, self._look_again_s = False, 0.0
            log.warning("the disk is full: released %s, so that the server can start", self._reserve)

    def keep_reserve(self, nbytes: int | None = None) -> None:
        """Set room aside for the next start on a full disk, now or as soon as there is enough for it."""
        self._reserve_bytes = self._reserve_bytes if nbytes is None else nbytes
        if self._has_reserve or not self._reserve_bytes or self.free_bytes < _RESERVE_SHARE * self._reserve_bytes:
            return
        self._has_reserve = True  # tried once: where it is not possible, it will not be later
        try:
            file = os.open(self._reserve, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(file, 0, self._reserve_bytes)
            finally:
                os.close(file)
        except OSError as error:
            log.warning("no room can be set aside for a start on a full disk: %s", error)
