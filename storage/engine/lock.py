"""One server for one data directory."""

import fcntl
import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Self

from storage.errors import InUse

_TRIES, _PAUSE_S = 5, 0.02


class DirectoryLock:
    """An exclusive lock on a data directory, held while this object is open.

    The kernel drops it when the process ends, however it ends. The file's text tells who holds it
    and where that server listens, for people and for the command line.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / "lock"
        self._file = self._path.open("a+")
        if not self._acquire():
            self._file.close()
            holder = read_holder(directory)
            who = f" (process {holder['pid']}, {holder.get('http') or 'no address yet'})" if holder else ""
            msg = f"the data directory {directory} is in use by another Tracejury{who}"
            raise InUse(f"{msg}; stop it, or choose another directory")
        with suppress(OSError):  # on a full disk: `announce` writes it again, once the reserve was released
            self.describe(http="")

    def _acquire(self) -> bool:
        """Try for a moment: somebody who only asks who holds the directory holds it for an instant himself."""
        for _ in range(_TRIES):
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                time.sleep(_PAUSE_S)
            else:
                return True
        return False

    def describe(self, *, http: str) -> None:
        """Write who holds the lock and its HTTP address."""
        self._file.seek(0)
        self._file.truncate()
        json.dump({"pid": os.getpid(), "http": http}, self._file)
        self._file.flush()

    def close(self) -> None:
        """Give the directory back."""
        self._file.seek(0)
        self._file.truncate()
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_holder(directory: Path) -> dict[str, str] | None:
    """Who holds the directory (`pid`, `http`), or None when nobody does."""
    try:
        with (directory / "lock").open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                holder = json.loads(file.read() or "{}")
                return {key: str(value) for key, value in holder.items()} if isinstance(holder, dict) else None
    except (OSError, ValueError):
        return None
    return None
