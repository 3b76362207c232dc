"""Cursors for queries of clients and pages, which may also read rows outside of the database (`ColdReader`)."""

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Protocol, TypeVar

import duckdb

from storage.engine.cursors import RowStream
from storage.engine.database import Database
from storage.memory import QueryMemory

_Piece = TypeVar("_Piece")


class ColdReader(Protocol):
    """Reader of rows that are not in the database any more."""

    def reading(
        self, cursor: duckdb.DuckDBPyConnection, *, begins: bool, is_own: bool
    ) -> AbstractContextManager[duckdb.DuckDBPyConnection]:
        """Return a cursor that reads those rows too; with `begins`, `cursor` is in no transaction and may begin one."""

    def watch(self, database: Database) -> None:
        """Follow the database whose cursors `reading` receives."""

    def periods(self, from_ns: int, to_ns: int) -> list[tuple[int, int]]:
        """Split a range of time into parts, latest first. Rows of a part after all moved traces are in the database."""

    def route(self, cursor: duckdb.DuckDBPyConnection, statement: str, parameters: Mapping[str, object]) -> None:
        """Decide where rows are read, for a statement of a client and for all later statements on this cursor."""

    def forget(self, error: Exception) -> bool:
        """Return True if a statement that failed with this error may succeed when repeated, because files changed."""


class ReadDatabase:
    """A database whose statements use all threads of DuckDB. Methods raise the same errors as those of `Database`."""

    def __init__(self, database: Database, cold: ColdReader | None = None, *, all_threads: bool = True) -> None:
        """Without `all_threads`, the number of DuckDB's threads is left as it is."""
        self._database = database
        self._cold = cold
        if cold is not None:
            cold.watch(database)
        self._threads: Callable[[], AbstractContextManager[None]] = database.threads.all if all_threads else nullcontext

    def _reading(
        self, cursor: duckdb.DuckDBPyConnection, *, begins: bool, is_own: bool = True
    ) -> AbstractContextManager[duckdb.DuckDBPyConnection]:
        if self._cold is None:
            return nullcontext(cursor)
        return self._cold.reading(cursor, begins=begins, is_own=is_own)

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
            self._threads(),
            self._database.cursor(mends=mends, may_share=may_share, is_own=is_own) as cursor,
            self._reading(
                cursor, begins=is_own and not (may_share and self._database.is_at_one_moment), is_own=is_own
            ) as reading,
        ):
            yield reading

    @contextmanager
    def snapshot(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Delegate to `Database.snapshot`."""
        with (
            self._threads(),
            self._database.snapshot() as cursor,
            self._reading(cursor, begins=False) as reading,
        ):
            yield reading

    @contextmanager
    def in_snapshot(self) -> Iterator[None]:
        """Delegate to `Database.in_snapshot`."""
        with self._threads(), self._database.in_snapshot():
            yield

    def periods(self, from_ns: int, to_ns: int) -> list[tuple[int, int]]:
        """Split a range of time into parts, latest first, for callers that read parts until they have enough rows."""
        return [(from_ns, to_ns)] if self._cold is None else self._cold.periods(from_ns, to_ns)

    def route(self, cursor: duckdb.DuckDBPyConnection, statement: str, parameters: Mapping[str, object]) -> None:
        """Decide where the rows of a client's statement are read."""
        if self._cold is not None:
            self._cold.route(cursor, statement, parameters)

    def forget_cold(self, error: Exception) -> bool:
        """Return True if a statement that failed with this error may succeed when repeated."""
        return self._cold is not None and self._cold.forget(error)

    def stream(self, pieces: Generator[_Piece, None, None]) -> RowStream[_Piece]:
        """Delegate to `Database.stream`."""
        return self._database.stream(pieces)

    def reopen(self) -> None:
        """Delegate to `Database.reopen`."""
        self._database.reopen()
