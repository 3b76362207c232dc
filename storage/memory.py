"""Advice if a query needs more memory than is allowed: which setting limits it, and its new value."""

import re
from dataclasses import dataclass
from typing import Final

import duckdb

LackOfMemory: Final = duckdb.OutOfMemoryException

_LIMIT: Final = re.compile(r"(?<![\d.])([\d.]++) ([KMGT])iB/([\d.]++) ([KMGT])iB used")
_MIB: Final = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024**2}

LEAST_SHARE_BYTES: Final = 32 << 20
"""Minimum memory of a statement that runs in a child process. A guess: what DuckDB needs for a window of spans."""
_UNBOUNDED_SHARE_BYTES: Final = 64 << 20  # if nothing bounds queries; a guess
_MACHINE_PART: Final = 4 / 5
"""The largest advised share of the machine's memory: DuckDB's default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryMemory:
    """The limits of memory of DuckDB and of the statements of clients."""

    duckdb_bytes: int
    at_once: int  # number of concurrent statements that share `all_bytes`
    all_bytes: int | None = None  # None: not bounded
    machine_bytes: int | None = None  # of the machine or its control group; None: unknown

    @property
    def share_bytes(self) -> int:
        """Return the memory limit of a statement that runs in a child process, in bytes."""
        share = _UNBOUNDED_SHARE_BYTES if self.all_bytes is None else self.all_bytes // self.at_once
        return max(share, LEAST_SHARE_BYTES)

    def advice_for_all(self) -> str:
        """Return the advice for a statement that was stopped by the limit of all statements together."""
        all_bytes = self.all_bytes or self.share_bytes * self.at_once
        why = f"queries needed more than {all_bytes >> 20} MiB of memory together (sql_memory_bytes), so this one"
        return f"{why} was stopped: {self._remedy(2 * all_bytes)}"

    def advice_for_one(self) -> str:
        """Return the advice for a statement that needed more than its share."""
        why = f"this query needed more than {self.share_bytes >> 20} MiB of memory (sql_memory_bytes over sql_at_once, "
        least = f"{LEAST_SHARE_BYTES >> 20} MiB at least), so it was stopped: "
        return why + least + self._remedy(2 * self.share_bytes * self.at_once)

    def _remedy(self, sql_bytes: int) -> str:
        less = "ask about a shorter time or fewer columns"
        duckdb_bytes = max(2 * sql_bytes, self.duckdb_bytes)  # one half for queries, the other for the server
        if self.machine_bytes is not None and duckdb_bytes > self.machine_bytes * _MACHINE_PART:
            return f"{less}; this machine has no more memory ({self.machine_bytes >> 20} MiB)"
        larger = "" if duckdb_bytes == self.duckdb_bytes else f" and duckdb_memory: {duckdb_bytes >> 20}MiB"
        return f"{less}, or set sql_memory_bytes: {sql_bytes}{larger}; if that is too little, the next error says more"


def advice(error: Exception) -> str:
    """Return the advice for DuckDB's own limit, which is in its message."""
    match = _LIMIT.search(str(error))
    limit = f" of {match[3]} {match[4]}iB" if match else ""
    larger = f"{round(float(match[3]) * _MIB[match[4]] * 2)}MiB" if match else "to twice as much"
    return (
        f"DuckDB's memory{limit} (duckdb_memory) is not enough for this, so it was stopped: ask about a shorter time "
        f"or fewer columns, or set duckdb_memory: {larger}"
    )
