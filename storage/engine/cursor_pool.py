"""Pool of cursors, which saves the statement (`USE`) that each new cursor needs first."""

import functools
import re
from collections.abc import Iterator
from typing import Any, Final, Self

import duckdb
import pyarrow as pa

from storage.engine.arrow import ArrowSlot, Rows
from storage.engine.table_writes import tables_written

_AT_MOST: Final = 4
"""Maximum number of idle cursors. A guess: the writer's, the matcher's, and two of other followers."""

_LARGE_BYTES: Final = 256 << 10
"""Larger registered tables are dropped when the cursor is returned, smaller ones only when another takes the name. A
guess: an idle server may hold some small ones."""

_LEAVES_NOTHING: Final = re.compile(r"(?:--[^\n]*\n|\s)*(?:SELECT|WITH|FROM|VALUES|INSERT|UPDATE|DELETE|BEGIN)\b")


class KeptCursor:
    """Cursor that may be reused, unless its last user left state in it: a setting, a snapshot, an interrupt.

    It remembers the tables that its statements write.
    """

    def __init__(self, cursor: duckdb.DuckDBPyConnection) -> None:
        self.cursor = cursor
        self.tables: set[str] = set()  # tables written since the cursor was handed out
        self._slots: dict[str, ArrowSlot] = {}  # by name
        self._large: set[str] = set()  # names of slots with large tables
        self._uncommitted: set[str] = set()  # names of slots whose registration a rollback undoes
        self._is_reusable = True
        self._is_read = True  # whether all rows of the last result were fetched; unread rows hold a snapshot
        self._rows: Rows = cursor

    def execute(self, query: str | duckdb.Statement, parameters: object = None) -> Self:
        """Delegate to the cursor."""
        written = self._note(query)
        self._rows = self.cursor.execute(query, parameters)
        self._is_read = bool(written)  # a write is complete before its rows are fetched
        return self

    def sql(self, query: str | duckdb.Statement, *, params: object = None) -> Self:
        """Delegate to the cursor; the rows are read as Arrow."""
        self._note(query)
        self._rows = self.cursor.sql(query, params=params)
        return self

    def _note(self, query: str | duckdb.Statement) -> frozenset[str]:
        text = query if isinstance(query, str) else query.query
        written = tables_written(text)
        self.tables |= written
        self._is_reusable &= _leaves_nothing(text)
        self._is_read = False
        return written

    def fetchall(self) -> list[Any]:
        """Delegate to the cursor."""
        rows = self.cursor.fetchall()
        self._is_read = True
        return rows

    def to_arrow_table(self) -> pa.Table:
        """Delegate to the cursor."""
        table = self._rows.to_arrow_table()
        self._rows = self.cursor
        self._is_read = True
        return table

    def to_arrow_reader(self, rows: int) -> pa.RecordBatchReader:
        """Delegate to the cursor."""
        reader = self._rows.to_arrow_reader(rows)
        return pa.RecordBatchReader.from_batches(reader.schema, self._batches(reader))

    def _batches(self, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        yield from reader
        self._rows = self.cursor
        self._is_read = True

    @property
    def description(self) -> Any:  # noqa: ANN401 - as that of a cursor
        """Delegate to the cursor."""
        return self._rows.description

    def complete(self) -> None:
        """Delegate to the cursor of DuckDB 2."""
        self.cursor.complete()  # type: ignore[attr-defined] # DuckDB 1.5 has no such method

    def register(self, name: str, table: pa.Table) -> None:
        """Let queries read a table under a name. A stream is registered as it is, and the cursor is not used again."""
        if not isinstance(table, pa.Table):
            self._is_reusable = False
            self._slots.pop(name, None)
            self.cursor.register(name, table)
            return
        slot = self._slots.get(name)
        if slot is None or not slot.table.schema.equals(table.schema):
            slot = self._slots[name] = ArrowSlot(table)
            self._uncommitted.add(name)
            self.cursor.register(name, slot)
        slot.table = table
        (self._large.add if table.nbytes > _LARGE_BYTES else self._large.discard)(name)

    def begin(self) -> None:
        """Delegate to the cursor."""
        self.cursor.begin()

    def commit(self) -> None:
        """Delegate to the cursor."""
        self.cursor.commit()
        self._uncommitted.clear()
        self._is_read = True

    def rollback(self) -> None:
        """Delegate to the cursor."""
        for name in self._uncommitted:
            self._slots.pop(name, None)
        self._uncommitted.clear()
        self.cursor.rollback()
        self._is_read = True

    def __getattr__(self, name: str) -> object:
        self._is_reusable = False  # this may leave any state
        return getattr(self.cursor, name)

    def clear(self) -> bool:
        """Drop large tables; return True if the cursor may be used again."""
        if not (self._is_reusable and self._is_read):
            return False
        for slot in map(self._slots.get, self._large):
            if slot is not None:
                slot.table = slot.table.schema.empty_table()
        self._large.clear()
        self.tables.clear()
        return True


class KeptCursors:
    """The idle cursors of one database. Thread-safe."""

    def __init__(self) -> None:
        self._idle: list[KeptCursor] = []
        self._most = _AT_MOST
        self._is_in_doubt = False

    def take(self) -> KeptCursor | None:
        """Return the idle cursor that was used last, or None."""
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def keep(self, cursor: KeptCursor) -> bool:
        """Keep a cleared cursor for its next user; return False if there are enough, or the database may be invalid."""
        if self._is_in_doubt or len(self._idle) >= self._most:
            return False
        self._idle.append(cursor)
        return True

    def trust(self) -> None:
        """Keep cursors again: a new one has found the database valid."""
        self._is_in_doubt = False

    def close(self, *, for_good: bool = False) -> None:
        """Close all idle cursors, because the database is being closed or may be invalid; `for_good`: keep none again.

        A cursor that is in use is closed when it is returned, so that no later user meets the invalid database again.

        """
        self._is_in_doubt = True
        if for_good:
            self._most = 0
        while (cursor := self.take()) is not None:
            cursor.cursor.close()


@functools.lru_cache(1024)
def _leaves_nothing(query: str) -> bool:
    return _LEAVES_NOTHING.match(query) is not None
