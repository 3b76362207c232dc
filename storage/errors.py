"""Exceptions of storage, named by what the caller should do.

StorageError
|-- Overloaded        the same spans will be welcome later
|   |-- Busy          a reader holds an older snapshot, or a checkpoint lacks room
|   |-- Barred        the caller broke the database too often lately
|   `-- Reopened      the database was opened again during the statement: retry
|-- WriteConflict     a concurrent change came first: read again before anything is stored
|-- Unusable          this data directory cannot be opened as it is
|   |-- InUse         another process holds it
|   |-- ReadOnly      the data directory cannot be written, but the operation writes
|   |-- NoRoom        its disk is full
|   |-- ForeignFile   the database was not made by Tracejury
|   |-- NewerFile     the database was made by a newer Tracejury
|   `-- OlderFile     the database was made before the first release
|-- Unpublished       the lake does not take rows now, or not before the operator acts
|-- Damaged           the stored data is damaged: no retry helps
|-- BadQuery          the SQL text is wrong or not allowed, or a value cannot be stored
|-- Conflict          the request contradicts stored data
|-- Stale             the record was changed since the caller read it
`-- NotFound          the named thing does not exist
"""

import shlex
from collections.abc import Collection
from pathlib import Path
from typing import Final


class StorageError(Exception):
    """Base class of the errors of storage that callers handle."""


class Overloaded(StorageError):
    """We are behind: the same bytes will be welcome later.

    `retry_after_s` is the delay that a sender should wait, in seconds.
    """

    def __init__(self, message: str, *, retry_after_s: int = 1) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Busy(Overloaded):
    """A reader holds a snapshot from before the last change, or the disk has no room for a checkpoint."""


class Reopened(Overloaded):
    """The statement was ended because the database had to be opened again; it is not the cause, and had no effect."""

    def __init__(self, message: str = "the database is being opened again; ask again") -> None:
        super().__init__(message)


FILE_IS_GONE: Final = "a file of the lake is gone, or cannot be read now; ask again"


class Barred(Overloaded):
    """The caller is refused for some minutes, because its statements made the database fail."""


class WriteConflict(StorageError):
    """The data that a write builds on has changed: read it again."""


class Unusable(StorageError):
    """The data directory cannot be opened as it is; the message has the remedy."""


class Unpublished(StorageError):
    """Rows could not be published to the lake; the message has the reason, and the remedy if the operator must act."""


class Damaged(StorageError):
    """The stored data is damaged: the request is right, and will fail again until the operator acts."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the data of this server is damaged: {reason}")


class InUse(Unusable):
    """Another process holds the data directory."""


class ReadOnly(Unusable):
    """The data directory cannot be written by this process."""

    def __init__(self, directory: Path, why: str) -> None:
        super().__init__(
            f"the data directory {directory} is read-only, and {why}: make it writable (see its mount, owner and mode),"
            f" or copy it (`cp -r {shlex.quote(str(directory))} COPY`) and use the copy"
        )


class NoRoom(Unusable):
    """The disk of the data directory is too full to open it."""

    def __init__(self, directory: Path, why: str, *, free_bytes: int, need_bytes: int) -> None:
        super().__init__(
            f"the disk of {directory} is full, {free_bytes >> 10:,} KiB are left ({why}): free {need_bytes >> 20} MiB"
            " there, but remove nothing of the data directory, and start again; nothing that was acknowledged is lost"
        )


class ForeignFile(Unusable):
    """The database file exists and is not one of ours."""


class NewerFile(Unusable):
    """The database was written by a newer version."""


class OlderFile(Unusable):
    """The database has a layout that no release wrote."""


class BadQuery(StorageError):
    """The SQL text is wrong, not allowed, or over its limits, or a value cannot be stored; the message says which."""


class Conflict(StorageError):
    """The request contradicts stored data; the message says which."""


class Stale(StorageError):
    """The record to change has another version than the one that was read."""

    def __init__(self, version: int) -> None:
        super().__init__(f"it was changed meanwhile: its version is {version}")


def require_version(version: int, seen: Collection[int] | None) -> None:
    """Check that a record still has one of the versions that were read; None skips the check.

    Raises:
        Stale: the record has another version.

    """
    if seen is not None and version not in seen:
        raise Stale(version)


class NotFound(StorageError):
    """The named record does not exist."""
