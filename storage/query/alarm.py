"""Alarm that ends a query at its limit of time or memory."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Final, Self

import duckdb

from storage import sql
from storage.engine.read_database import ReadDatabase
from storage.errors import Overloaded, Reopened
from storage.memory import LackOfMemory
from storage.query.query_limits import late

_POLL_INTERVAL_S: Final = 0.05
"""Seconds between two checks, which take 1.5 to 4.6 ms each. Queries that end within this time are not checked."""


@contextmanager
def text_alarm(database: ReadDatabase, cursor: duckdb.DuckDBPyConnection, timeout_s: float) -> Iterator[None]:
    """Interrupt the reading of texts at a limit of time or memory.

    Raises:
        Overloaded: the limit was reached.
    """
    alarm = QueryAlarm(database, cursor.interrupt, timeout_s)
    try:
        with alarm:
            yield
    except duckdb.InterruptException as error:
        if alarm.why is None:
            raise
        raise Overloaded(
            f"text: the stored texts could not be read within {timeout_s:g} s, or within the memory of queries; "
            "search a shorter time, or with further filters"
        ) from error


class QueryAlarm:
    """Watchdog that interrupts a query if it takes too long, or if all queries together take too much memory.

    DuckDB has one memory limit for the whole process. Measured with 256 MB and two queries that sort and join, while
    8,192 rows were inserted every 50 ms: 5 of 230 inserts found no memory. `Database.query_bytes` keeps queries well
    below that limit. Cached blocks of tables do not count, because DuckDB can evict them.
    """

    def __init__(self, database: ReadDatabase, interrupt: Callable[[], None], timeout_s: float) -> None:
        self._database = database
        self._interrupt = interrupt
        self._timeout_s = timeout_s
        self._until_s = time.monotonic() + timeout_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="sql-alarm", daemon=True)
        self.why: str | None = None  # the reason for the interrupt; None before it

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(min(_POLL_INTERVAL_S, max(self._until_s - time.monotonic(), 0.001))):
            self.why = self.why or self._reason()
            if self.why is not None:
                self._interrupt()  # repeated, since it ends only the running statement

    def _reason(self) -> str | None:
        if time.monotonic() >= self._until_s:
            return late(self._timeout_s)
        if self._database.query_bytes is not None and self._used_bytes() > self._database.query_bytes:
            return self._database.query_memory.advice_for_all()
        return None

    def _used_bytes(self) -> int:
        try:
            with self._database.cursor(mends=False) as cursor:  # the query holds a cursor: no reopening
                ((used,),) = cursor.execute(sql.query("memory_of_queries")).fetchall()
        except LackOfMemory:
            return 1 << 62
        except (duckdb.Error, Reopened):
            return 0
        return int(used)
