"""File modes of a data directory: only its owner reads it, whatever the umask of the process is."""

import logging
import os
import stat
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

_OTHERS: Final = 0o077
_FOLDERS: Final = ("spool", "calls", "set-aside")
_OURS: Final = (
    *("*.duckdb", "*.duckdb.wal", "lock", "encryption.key"),
    *_FOLDERS,
    *(f"{folder}/*" for folder in _FOLDERS),
)


def keep_new_files_private() -> None:
    """Give every file and directory that this process creates from now on the mode 0600 or 0700.

    This sets the umask, because DuckDB creates the database, its log and its temporary files without a mode.
    """
    os.umask(os.umask(_OTHERS) | _OTHERS)


def make_private(directory: Path) -> None:
    """Restrict the files that an earlier version, or a copy, left in a data directory.

    The directory itself keeps its mode: a volume may be mounted for a group. A warning names that mode.
    """
    for pattern in _OURS:
        for path in directory.glob(pattern):
            _restrict(path)
    mode = stat.S_IMODE(directory.stat().st_mode)
    if mode & _OTHERS:
        log.warning(
            "%s has mode %04o: other users see the names of its files; to prevent that, chmod 700", directory, mode
        )


def _restrict(path: Path) -> None:
    try:
        status = path.lstat()
        if not stat.S_ISLNK(status.st_mode) and status.st_mode & _OTHERS:
            path.chmod(stat.S_IMODE(status.st_mode) & ~_OTHERS)
    except FileNotFoundError:  # deleted since `glob`
        pass
    except OSError as error:  # not ours, or a read-only file system
        log.warning("%s is readable by other users, and its mode cannot be changed: %s", path, error.strerror)
