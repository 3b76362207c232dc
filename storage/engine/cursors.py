"""Open cursors, and how all of them are ended so that the file can be opened again."""

import logging
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, Generic, TypeVar
from weakref import WeakSet

import duckdb

from storage.errors import Reopened

_Piece = TypeVar("_Piece")

log = logging.getLogger(__name__)

_POLL_INTERVAL_S: Final = 0.05
"""Seconds between two interruptions, each of which ends one statement of a reader that may run several. A guess."""


_BUG: Final = ("INTERNAL Error", "FATAL Error")
_AFTERMATH: Final = "has been invalidated because"
"""DuckDB says so if a whole instance is invalid and, since 1.5, if one file is, because its checkpoint failed."""


def is_bug(error: Exception) -> bool:
    """Return True if DuckDB met a bug of its own; it then refuses all statements until the file is opened again."""
    return str(error).startswith(_BUG) and not is_aftermath(error)


def is_aftermath(error: Exception) -> bool:
    """Return True if DuckDB refuses a statement because an earlier one made the database invalid."""
    return _AFTERMATH in str(error)


class RowStream(Generic[_Piece]):
    """A streamed result that another thread may end between two fetches."""

    def __init__(self, pieces: Generator[_Piece, None, None]) -> None:
        self._pieces = pieces
        self._lock = threading.Lock()
        self._is_abandoned = False

    def __iter__(self) -> Iterator[_Piece]:
        return self

    def __next__(self) -> _Piece:
        with self._lock:
            if self._is_abandoned:
                raise Reopened
            return next(self._pieces)

    def close(self) -> None:
        """Close the stream; waits for a fetch under way."""
        with self._lock:
            self._pieces.close()

    def abandon(self) -> None:
        """Close the stream unless a thread is fetching from it (which is interrupted by other means)."""
        if self._lock.acquire(blocking=False):
            try:
                self._is_abandoned = True
                self._pieces.close()
            finally:
                self._lock.release()


class Cursors:
    """The open cursors of one database. Thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._open: dict[duckdb.DuckDBPyConnection, bool] = {}  # True: the cursor may be interrupted
        self._ended: WeakSet[duckdb.DuckDBPyConnection] = WeakSet()
        self._streams: WeakSet[RowStream[Any]] = WeakSet()

    def __len__(self) -> int:
        return len(self._open)

    def add(self, cursor: duckdb.DuckDBPyConnection, *, may_end: bool) -> None:
        """Register an open cursor; one that writes is never interrupted, but waited for."""
        with self._changed:
            self._open[cursor] = may_end

    def remove(self, cursor: duckdb.DuckDBPyConnection, keep: Callable[[], bool] | None = None) -> None:
        """Remove a cursor that was closed or is kept; it is removed before `keep` offers it to the next user."""
        with self._changed:
            del self._open[cursor]
            if keep is not None and (cursor in self._ended or not keep()):
                cursor.close()
            self._changed.notify_all()

    def was_ended(self, cursor: duckdb.DuckDBPyConnection) -> bool:
        """Return True if `end` interrupted the cursor."""
        return cursor in self._ended

    def stream(self, pieces: Generator[_Piece, None, None]) -> RowStream[_Piece]:
        """Stream an answer that holds a cursor until it is read; `end` ends it with all others."""
        stream = RowStream(pieces)
        with self._changed:
            self._streams.add(stream)
        return stream

    def end(self, wait_s: float) -> bool:
        """Interrupt readers until all cursors are closed; return False if that takes longer than `wait_s`."""
        until_s = time.monotonic() + wait_s
        while True:
            with self._changed:
                streams = list(self._streams)
                for cursor in [each for each, may_end in self._open.items() if may_end]:
                    self._ended.add(cursor)
                    with suppress(duckdb.Error):  # it is being closed
                        cursor.interrupt()
            for stream in streams:
                stream.abandon()
            with self._changed:
                if self._changed.wait_for(lambda: not self._open, _POLL_INTERVAL_S):
                    return True
            if time.monotonic() > until_s:
                return False


@contextmanager
def one_moment(cursor: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Run all queries of the block on one snapshot."""
    try:
        begin_reading(cursor)  # inside of `try`: an interrupted BEGIN may have begun the transaction
        yield
    finally:
        roll_back(cursor)


def begin_reading(cursor: duckdb.DuckDBPyConnection) -> None:
    """Begin a transaction that cannot write."""
    cursor.execute("BEGIN TRANSACTION READ ONLY")


def roll_back(cursor: duckdb.DuckDBPyConnection) -> None:
    """Roll back the transaction of a cursor, if it has one. A cursor must not be closed without this.

    DuckDB 1.5.5 rolls back an open transaction in a destructor, which ends the process (`std::terminate`) if the
    database was declared invalid meanwhile. An explicit rollback raises the same error here, and closes the
    transaction. An interrupted rollback may leave the transaction open (39 of 955 did that another thread interrupted),
    so it is repeated.
    """
    while True:
        try:
            cursor.rollback()
        except duckdb.InterruptException:
            continue
        except duckdb.Error as error:
            log.debug("nothing to roll back: %s", error)
        return
