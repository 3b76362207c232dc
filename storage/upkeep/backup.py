"""Backup: a consistent copy of the database file, made during ingest.

Between two checkpoints DuckDB does not overwrite blocks in use: commits go to its log, or into free blocks. So a file
that is copied while no checkpoint runs is, without the log, the database as of the last checkpoint. Checkpoints are
postponed during the copy. The file's headers show whether one ran nevertheless; if so, the copy is repeated.
"""

import errno
import os
import shutil
from pathlib import Path
from typing import IO

from storage.engine.database import Database
from storage.errors import Overloaded, ReadOnly
from storage.ingest.writer import Writer
from storage.limit import Limit

_HEADER_BYTES = 3 * 4096
_CHUNK_BYTES = 256 << 10
_TRIES = 5
_KEPT_FREE_BYTES = 64 << 20  # the store's default reserve
_ZEROS = bytes(_CHUNK_BYTES)


def copy_database(database: Database, writer: Writer, target: IO[bytes]) -> None:
    """Write a consistent copy to an open file; everything that was committed before is in it.

    Raises:
        Overloaded: a checkpoint or a reopening of the database disturbed each attempt.
        ReadOnly: the database is read-only, and a part of it is in its log.
        OSError: the copy cannot be written.
    """
    if database.is_read_only:
        if database.log_bytes():
            raise ReadOnly(database.path.parent, "a part of the database is in its log, which no backup holds")
        _copy(database.path, target)
        return
    with database.cursor():  # so that the file is not opened again meanwhile
        for _ in range(_TRIES):
            writer.between(database.checkpoints.hold)
            try:
                if _copy(database.path, target):
                    return
            finally:
                writer.between(database.checkpoints.allow)
    limit = Limit(value=_TRIES, unit="attempts", remedy="try again when less is written")
    raise Overloaded(f"the database was checkpointed more often while it was copied than {limit}")


def _copy(source: Path, writing: IO[bytes]) -> bool:
    """Copy a file, with its holes; return True if its headers were the same before and after."""
    needed = source.stat().st_blocks * 512
    if shutil.disk_usage(writing.fileno()).free < needed + _KEPT_FREE_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # a copy must not take the last room of the database
    writing.seek(0)
    writing.truncate()  # or data of an earlier attempt would show in the holes
    with source.open("rb") as reading:
        before = reading.read(_HEADER_BYTES)
        reading.seek(0)
        while chunk := reading.read(_CHUNK_BYTES):
            if chunk == _ZEROS:
                writing.seek(len(chunk), os.SEEK_CUR)
            else:
                writing.write(chunk)
        writing.truncate()
        writing.flush()
        os.fsync(writing.fileno())
        reading.seek(0)
        return before == reading.read(_HEADER_BYTES)
