"""What storage raises, named by what the caller should do.

StorageError
|-- Overloaded        the same spans will be welcome later
|-- Unusable          this data directory cannot be opened as it is
|   |-- InUse         another process holds it
|   |-- ForeignFile   the database was not made by Tracejury
|   `-- NewerFile     the database was made by a newer Tracejury
`-- BadQuery          the SQL text is wrong, or not allowed
"""


class StorageError(Exception):
    """Anything that storage raises on purpose."""


class Overloaded(StorageError):
    """We are behind: the same bytes will be welcome later.

    `retry_after_s` is the delay that a sender should wait, in seconds.
    """

    def __init__(self, message: str, *, retry_after_s: int = 1) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Unusable(StorageError):
    """The data directory cannot be opened as it is; the message says what to do."""


class InUse(Unusable):
    """Another process holds the data directory."""


class ForeignFile(Unusable):
    """The database file exists and is not one of ours."""


class NewerFile(Unusable):
    """The database was written by a newer version."""


class BadQuery(StorageError):
    """The SQL text is wrong, not allowed, or went over its limits; the message says which."""
