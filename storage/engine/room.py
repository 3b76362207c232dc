"""Free space on the disk of the database: what may be written when it is low, and a reserve for a start."""

import errno
import logging
import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import duckdb

from storage.errors import NoRoom, StorageError

log = logging.getLogger(__name__)

_REFRESH_S: Final = 0.05
"""How long a measurement of free space is reused. A guess: in that time, little is written compared to the reserve."""
_CHECKPOINT_BYTES: Final = 12 << 20
"""What a checkpoint writes beside the log: the last row group of each table that changed, and metadata. A
guess, which trials on full disks did not refute with spans of some hundred bytes; with texts of 5 kB and more it is too
little, since a row group to which a row was added is written anew as a whole."""
RESERVE_NAME: Final = "reserve"
_RESERVE_DIVISOR: Final = 8
"""Divisor of the free space: the largest share of it that the reserve takes. A guess."""
_RESERVE_STEP_BYTES: Final = 1 << 20
"""A start without a long spool needed 128 KiB on a disk of 90 MiB; with 64 KiB the commit of the views failed."""
_ADVISED_BYTES: Final = 32 << 20
"""The room that an operator should free for a start: for a reserve and a checkpoint. A guess."""

_FULL: Final = frozenset((errno.ENOSPC, errno.EDQUOT))
_FULL_TEXTS: Final = tuple(os.strerror(number) for number in sorted(_FULL))


class DiskRoom:
    """The disk of one directory. Thread-safe."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._reserve = directory / RESERVE_NAME
        self._target_bytes = 0  # wanted size of the reserve; 0 until `keep_reserve` sets it
        self._reserved_bytes = _size(self._reserve)
        self._lock = threading.Lock()
        self._free_bytes, self._look_again_s = 0, 0.0

    @property
    def free_bytes(self) -> int:
        """Return the free bytes as of a moment ago, because each system call takes a while."""
        now_s = time.monotonic()
        with self._lock:
            if now_s >= self._look_again_s:
                self._free_bytes, self._look_again_s = shutil.disk_usage(self._directory).free, now_s + _REFRESH_S
            return self._free_bytes

    def allows_checkpoint(self, log_bytes: int) -> bool:
        """Return True if a log of `log_bytes` can be moved into the file."""
        return self.free_bytes >= checkpoint_bytes(log_bytes)

    def keep_reserve(self, nbytes: int | None = None) -> None:
        """Reserve `nbytes` of the disk for the next start on a full disk, or less while the disk has little room.

        Without `nbytes`, the reserve is made or enlarged towards its last size, as far as there is room now.
        """
        self._target_bytes = self._target_bytes if nbytes is None else nbytes
        if self._reserved_bytes >= self._target_bytes:
            return
        share = (self.free_bytes + self._reserved_bytes) // _RESERVE_DIVISOR
        size = min(self._target_bytes, share - share % _RESERVE_STEP_BYTES)
        if size > self._reserved_bytes:
            self._set_aside(size)

    def _set_aside(self, size: int) -> None:
        try:
            file = os.open(self._reserve, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(file, 0, size)
            finally:
                os.close(file)
        except OSError as error:
            log.warning(
                "cannot create the disk reserve for a start on a full disk: %s: %s", self._reserve, error.strerror
            )
            self._target_bytes = 0  # not tried again: what failed once is assumed to fail later, too
        self._reserved_bytes = _size(self._reserve)


def checkpoint_bytes(log_bytes: int) -> int:
    """Return the room that is needed to move a log of `log_bytes` into the file."""
    return 2 * log_bytes + _CHECKPOINT_BYTES


def release_reserve(directory: Path) -> None:
    """Delete the reserve if less space is free than its size. It MUST be called before anything is written."""
    reserve = directory / RESERVE_NAME
    size = _size(reserve)
    if size and shutil.disk_usage(directory).free < size:
        reserve.unlink(missing_ok=True)
        log.warning(
            "the disk is full: deleted the reserve %s (%d MiB), so that the server can start", reserve, size >> 20
        )


@contextmanager
def needing_room(directory: Path) -> Iterator[None]:
    """Turn a failed write for lack of room in the block into an error with advice.

    Raises:
        NoRoom: the disk of the directory is full.
    """
    try:
        yield
    except (OSError, duckdb.Error, StorageError) as error:
        if isinstance(error, NoRoom) or not is_full(error):
            raise
        what = error.filename if isinstance(error, OSError) else None
        why = f"{what or directory}: {_FULL_TEXTS[0]}" if isinstance(error, OSError) else str(error).partition("\n")[0]
        raise NoRoom(directory, why, free_bytes=shutil.disk_usage(directory).free, need_bytes=_ADVISED_BYTES) from error


def is_full(error: Exception) -> bool:
    """Return True if an error is about a full disk or quota."""
    if isinstance(error, OSError):
        return error.errno in _FULL
    return any(text in str(error) for text in _FULL_TEXTS)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
