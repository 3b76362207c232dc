"""DuckDB's buffers without their old contents, which it else writes into unused parts of blocks (ADR 043)."""

import logging
from typing import Final

import duckdb

from storage import sql
from storage.engine.attaching import memory_bytes

log = logging.getLogger(__name__)

_SHARE: Final = 0.4
_MOST_ROOM_BYTES: Final = 128 << 20
"""A row group of spans of 1.3 kB takes some 10 MB as it is stored. Rewriting it reads two of them, and needs two
buffers of 256 kB for each of the columns, which were 63 then: some 80 MB with the rows themselves. When only a fifth
of 256 MB was freed, DuckDB evicted blocks in the middle of it."""

_CACHE_DIVISOR: Final = 16
_LEAST_CACHED_BYTES: Final = 32 << 20
"""Blocks of the file that DuckDB keeps in memory after a checkpoint: memory limit / divisor, or at least this many
bytes. Guesses (ADR 095)."""


def clear_buffers(connection: duckdb.DuckDBPyConnection) -> None:
    """Return unused memory of DuckDB to the system, and make room for what the next step writes.

    If DuckDB is at its memory limit, it writes into the buffer of a block that it evicts, with all that this held.
    Lowering the limit for a moment makes it free such buffers instead. For the writer's thread, or while no writer
    runs: a reader has less memory in that moment.

    """
    ((limit,),) = connection.execute("SELECT current_setting('memory_limit')").fetchall()
    ((used_bytes,),) = connection.execute(sql.query("memory_in_use")).fetchall()
    limit_bytes = memory_bytes(connection)
    room_bytes = min(int(limit_bytes * _SHARE), _MOST_ROOM_BYTES)
    try:
        if used_bytes > limit_bytes - room_bytes:
            connection.execute(f"SET GLOBAL memory_limit = '{limit_bytes - room_bytes}B'")
    except duckdb.OutOfMemoryException as error:  # it is in use
        log.debug("cannot free memory: %s", error)
    finally:
        connection.execute(f"SET GLOBAL memory_limit = '{limit}'")  # which also frees unused memory


def drop_cached(connection: duckdb.DuckDBPyConnection) -> None:
    """Evict cached blocks of the file, but for a share.

    DuckDB keeps each block that it read or wrote until its memory is full, so a server with 50 spans/s grew by 9 MB a
    minute up to a quarter of the machine. The operating system caches them, too, and gives them back sooner than a
    process does. Call it while there are no readers: a statement may lack memory in that moment.

    """
    ((limit,),) = connection.execute("SELECT current_setting('memory_limit')").fetchall()
    ((used_bytes, cached_bytes),) = connection.execute(sql.query("memory_cached")).fetchall()
    excess_bytes = cached_bytes - max(memory_bytes(connection) // _CACHE_DIVISOR, _LEAST_CACHED_BYTES)
    if excess_bytes <= 0:
        return
    try:
        connection.execute(f"SET GLOBAL memory_limit = '{used_bytes - excess_bytes}B'")
    except duckdb.OutOfMemoryException as error:  # some are in use
        log.debug("cannot drop all cached blocks: %s", error)
    finally:
        connection.execute(f"SET GLOBAL memory_limit = '{limit}'")
