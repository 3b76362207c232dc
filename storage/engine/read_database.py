"""Cursors for queries, beside those of the server's own work."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import duckdb

from storage.engine.cursors import RowStream
from storage.engine.database import Database
from storage.memory import QueryMemory

_Piece = TypeVar("_Piece")


class ReadDatabase:
    """A database whose statements use all threads of DuckDB. Cursors are those of `Database`, with its errors."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def query_bytes(self) -> int | None:
        """Delegate to the database."""
        return self._database.query_bytes

    @property
    def query_memory(self) -> QueryMemory:
        """Delegate to the database."""
        return self._database.query_memory

    @property
    def scratch(self) -> Path:
        """Delegate to the database."""
        return self._database.scratch

    @property
    def hides_pandas(self) -> bool:
        """Return True if pandas is hidden, here and in child processes."""
        return self._database.workarounds.hide_pandas

    @contextmanager
    def cursor(
        self, *, mends: bool = True, may_share: bool = True, is_own: bool = True
    ) -> Iterator[duckdb.DuckDBPyConnection]:
        """Delegate to `Database.cursor`."""
        with (
            self._database.threads.all(),
            self._database.cursor(mends=mends, may_share=may_share, is_own=is_own) as cursor,
        ):
            yield cursor

    @contextmanager
    def snapshot(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Delegate to `Database.snapshot`."""
        with self._database.threads.all(), self._database.snapshot() as cursor:
            yield cursor

    @contextmanager
    def at_one_moment(self) -> Iterator[None]:
        """Delegate to `Database.at_one_moment`."""
        with self._database.threads.all(), self._database.at_one_moment():
            yield

    def stream(self, pieces: Generator[_Piece, None, None]) -> RowStream[_Piece]:
        """Delegate to `Database.stream`."""
        return self._database.stream(pieces)

    def reopen(self) -> None:
        """Delegate to `Database.reopen`."""
        self._database.reopen()
