"""Rows that are cached until one of their tables is written."""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from storage.engine.database import Database
from storage.engine.table_writes import tables_read

SAFETY_S: Final = 60.0
"""Cached rows are read again after this time even if no write was counted, in case a write was missed. A guess."""


class RowCache:
    """Cached rows of one query, read again once a table that it reads was written. Thread-safe."""

    def __init__(self, database: Database, query: str) -> None:
        self._database = database
        self._query = query
        self._tables = tables_read(query)
        # The rows, the names of their columns, how often the tables had been written, and when they were read.
        self._kept: tuple[list[tuple[Any, ...]], list[str], int, float] | None = None

    def rows(
        self,
        params: Mapping[str, object] | None = None,
        *,
        now_us: int | None = None,
        is_over: Callable[[list[tuple[Any, ...]]], bool] = lambda _: False,
    ) -> list[tuple[Any, ...]]:
        """Return the rows; `is_over` returns True if cached rows are outdated only because time has passed.

        Parameters MUST be the same in each call, except for the current time. A caller that passes the time passes it
        as `now_us`, too, from which the age of the rows is computed.
        """
        return self._current(params, now_us, is_over)[0]

    def named(self, params: Mapping[str, object] | None = None) -> list[dict[str, Any]]:
        """Return the rows by the names of their columns."""
        rows, names = self._current(params, None, lambda _: False)
        return [dict(zip(names, row, strict=True)) for row in rows]

    def _current(
        self,
        params: Mapping[str, object] | None,
        now_us: int | None,
        is_over: Callable[[list[tuple[Any, ...]]], bool],
    ) -> tuple[list[tuple[Any, ...]], list[str]]:
        writes = self._database.writes.count(self._tables)  # before the rows are read
        now_s = time.monotonic() if now_us is None else now_us / 1e6
        if self._kept is not None:
            rows, names, as_of, read_s = self._kept
            if writes == as_of and abs(now_s - read_s) < SAFETY_S and not is_over(rows):
                return rows, names
        with self._database.cursor(may_share=False) as cursor:  # a shared cursor may read an older snapshot
            rows = cursor.execute(self._query, params and dict(params)).fetchall()
            names = [column[0] for column in cursor.description or ()]
        self._kept = rows, names, writes, now_s
        return rows, names
