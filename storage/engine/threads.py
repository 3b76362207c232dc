"""Number of DuckDB's threads: all of them while queries run, one while the server does its own work alone."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final

import duckdb

from storage.engine.opening import standing_back
from storage.errors import Reopened

log = logging.getLogger(__name__)

_REST_S: Final = 1.0
"""How long all threads are kept after a query, for the next query of the same page. A guess."""


class Threads:
    """The threads of one database. Thread-safe.

    Statements of the server's own work, such as a commit or its matching, are short. With two threads, each of them
    wakes the second thread for some microseconds: with 512 spans a commit took 205 to 226 µs of CPU a span with two
    threads and 166 to 177 with one, and the same time.
    """

    def __init__(self, cursor: Callable[[], AbstractContextManager[duckdb.DuckDBPyConnection]]) -> None:
        """`cursor` opens a cursor that is never interrupted; call `start` before any other method."""
        self._cursor = cursor
        self._lock = threading.Lock()
        self._all = 1
        self._has_all = True
        self._asking = 0
        self._last_query_s = 0.0  # monotonic, of the last question that ended

    def start(self) -> None:
        """Read the number of threads."""
        with self._cursor() as cursor:
            ((self._all,),) = cursor.execute("SELECT current_setting('threads')").fetchall()

    def opened(self) -> None:
        """Note that the database was opened again, with all threads. Without the lock: its holder may need a cursor."""
        self._has_all = True

    @contextmanager
    def all(self) -> Iterator[None]:
        """Use all threads during the block."""
        with self._lock:
            self._asking += 1
            self._use(has_all=True)
        try:
            yield
        finally:
            with self._lock:
                self._asking -= 1
                self._last_query_s = time.monotonic()

    def rest(self) -> None:
        """Use one thread from now on, unless a query runs, or ran a moment ago."""
        if self._has_all and not self._asking and time.monotonic() - self._last_query_s > _REST_S:
            with self._lock:
                self._use(has_all=self._asking > 0)

    def _use(self, *, has_all: bool) -> None:
        if has_all == self._has_all:
            return
        try:
            if has_all:
                standing_back(lambda: self._set(self._all))
            else:
                self._set(1)
        except (duckdb.Error, Reopened) as error:  # as while the file is reopened, which restores all
            log.debug("the number of threads is not changed: %s", error)
        else:
            self._has_all = has_all

    def _set(self, threads: int) -> None:
        # DuckDB starts and ends threads at the end of the statement.
        with self._cursor() as cursor:
            cursor.execute(f"SET GLOBAL threads = {threads}")
