"""Lock of a data directory: for one process that writes, or several that only read."""

import fcntl
import json
import os
import time
from pathlib import Path
from typing import IO, Final, Self

from storage.errors import InUse, ReadOnly, Unusable

_TRIES, _PAUSE_S = 5, 0.02
_NAME: Final = "lock"
_WRITTEN: Final = ("", _NAME, "tracejury.duckdb", "tracejury.duckdb.wal", "spool", "calls")


class DirectoryLock:
    """A lock on a data directory, held while this object is open.

    A process that writes holds it alone; those that only read a read-only directory share it. The kernel drops it
    when the process ends, however it ends. The file's text says who holds the lock and where that server listens, for
    people and for the command line.
    """

    def __init__(self, directory: Path, *, may_only_read: bool = False, only_reads: bool = False) -> None:
        """Lock a directory, which is made unless it exists. `may_only_read` accepts one that cannot be written.

        With `only_reads` any directory is treated as one that cannot be written.

        Raises:
            InUse: another process holds it.
            ReadOnly: the directory is read-only.
            Unusable: the directory cannot be made or entered.
        """
        self._path = directory / _NAME
        try:
            directory.mkdir(parents=True, exist_ok=True)
            fixed = _first_unwritable(directory)
            if fixed is not None and not (may_only_read or only_reads):
                raise ReadOnly(directory, f"a server writes to {'it' if fixed == directory else fixed}")
            self.is_read_only = only_reads or fixed is not None
            self._file = _lock_file(self._path, is_read_only=self.is_read_only)
        except OSError as error:
            why = f"{error.filename or directory}: {error.strerror}"
            raise Unusable(f"the data directory {directory} cannot be used ({why}); choose another one") from error
        if not self._acquire():
            self._release()
            holder = read_holder(directory)
            who = f" (process {holder['pid']}, {holder.get('http') or 'no address yet'})" if holder else ""
            msg = f"the data directory {directory} is in use by another Tracejury{who}"
            raise InUse(f"{msg}; stop it, or choose another directory")

    def _acquire(self) -> bool:
        """Try several times, because `read_holder` in another process takes the lock for an instant."""
        if self._file is None:
            return True
        for _ in range(_TRIES):
            try:
                fcntl.flock(self._file, (fcntl.LOCK_SH if self.is_read_only else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            except OSError:
                time.sleep(_PAUSE_S)
            else:
                return True
        return False

    def describe(self, *, http: str) -> None:
        """Write the holder and its HTTP address, unless the directory is read-only."""
        self._write(json.dumps({"pid": os.getpid(), "http": http}))

    def close(self) -> None:
        """Release the directory."""
        self._write("")
        self._release()

    def _write(self, text: str) -> None:
        if self._file is None or self.is_read_only:
            return
        file, data = self._file.fileno(), text.encode()
        try:
            os.pwrite(file, data, 0)  # before truncation: a full disk still has room for bytes that the file has
            os.ftruncate(file, len(data))
        except OSError as error:
            error.filename = self._path
            raise

    def _release(self) -> None:
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _first_unwritable(directory: Path) -> Path | None:
    written = (directory / name for name in _WRITTEN)
    return next((path for path in written if path.exists() and not os.access(path, os.W_OK)), None)


def _lock_file(path: Path, *, is_read_only: bool) -> IO[bytes] | None:
    # A read-only backup has no lock file, and is shared without one.
    if not is_read_only:
        return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b", buffering=0)
    return path.open("rb") if path.exists() else None


def read_holder(directory: Path) -> dict[str, str] | None:
    """Return the holder of the directory (`pid`, `http`), or None if no process that writes has locked it."""
    try:
        with (directory / _NAME).open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                holder = json.loads(file.read() or "{}")
                return {key: str(value) for key, value in holder.items()} if isinstance(holder, dict) else None
    except (OSError, ValueError):
        return None
    return None
