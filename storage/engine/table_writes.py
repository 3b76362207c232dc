"""Counters of writes by table: only this process writes, so it re-reads only tables that it changed."""

import functools
import re
import threading
from collections.abc import Collection
from typing import Final

from storage import sql

_WRITES: Final = re.compile(
    r"\b(?:INSERT (?:OR \w+ )?INTO|UPDATE|DELETE FROM|MERGE INTO|TRUNCATE)\s+(?!SET\b|BY NAME\b)\"?(\w+)"
)
_COMMENT: Final = re.compile(r"--[^\n]*")


class TableWrites:
    """Number of transactions that wrote each table since the start. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers: dict[str, int] = {}

    def note(self, tables: Collection[str]) -> None:
        """Count a transaction that may have written these tables, after its commit and before its caller returns."""
        with self._lock:
            for table in tables:
                self._numbers[table] = self._numbers.get(table, 0) + 1

    def count(self, tables: Collection[str]) -> int:
        """Return a number that grows with each transaction that writes one of these tables."""
        with self._lock:
            return sum(self._numbers.get(table, 0) for table in tables)


@functools.lru_cache(1024)
def tables_written(query: str) -> frozenset[str]:
    """Return the names of the tables that a statement writes."""
    return frozenset(_WRITES.findall(_COMMENT.sub("", query)))


@functools.cache
def tables_read(query: str) -> frozenset[str]:
    """Return all words of a statement and of the views among them, the tables that it reads included."""
    views = dict(sql.views())
    words, left = set[str](), {query}
    while left:
        more = set(re.findall(r"\w+", _COMMENT.sub("", left.pop()))) - words
        words |= more
        left |= {views[each] for each in more & views.keys()}
    return frozenset(words)
