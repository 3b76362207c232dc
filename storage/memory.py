"""What to say where a question needs more memory than there is: which setting it was, and what to set."""

import re
from typing import Final

import duckdb

LackOfMemory: Final = duckdb.OutOfMemoryException

_LIMIT: Final = re.compile(r"([\d.]+) ([KMGT])iB/([\d.]+) ([KMGT])iB used")
_MIB: Final = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024**2}


def advice(error: Exception) -> str:
    """The sentence for DuckDB's own limit, which its message tells."""
    found = _LIMIT.search(str(error))
    limit = f" of {found[3]} {found[4]}iB" if found else ""
    larger = f"{round(float(found[3]) * _MIB[found[4]] * 2)}MiB" if found else "to twice as much"
    return (
        f"DuckDB's memory{limit} (duckdb_memory) is not enough for this, so it was stopped: ask about a shorter time "
        f"or fewer columns, or set duckdb_memory: {larger}"
    )


def advice_for_queries(query_bytes: int) -> str:
    """The sentence for what queries may take of it together."""
    mib = query_bytes >> 20
    return (
        f"queries needed more than {mib} MiB of memory together (sql_memory_bytes), so this one was stopped: ask about "
        f"a shorter time or fewer columns, or set sql_memory_bytes: {2 * query_bytes} and duckdb_memory: {4 * mib}MiB"
    )


def advice_for_query(query_bytes: int, all_bytes: int) -> str:
    """The sentence for what one of them may take."""
    mib = query_bytes >> 20
    return (
        f"this query needed more than {mib} MiB of memory (sql_memory_bytes, shared by sql_at_once), so it was "
        f"stopped: ask about a shorter time or fewer columns, or set sql_memory_bytes: {2 * all_bytes} and "
        f"duckdb_memory: {4 * all_bytes >> 20}MiB"
    )
