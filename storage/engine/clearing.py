"""Clearing of DuckDB's buffers: DuckDB would write their old contents into unused parts of blocks (ADR 043)."""

import logging
from typing import Final

import duckdb

from storage import sql
from storage.engine.attaching import memory_bytes

log = logging.getLogger(__name__)

_SHARE: Final = 0.4
_MOST_ROOM_BYTES: Final = 128 << 20
"""Memory that is freed before a write: this share of the memory limit, at most this many bytes. A stored row group of
spans of 1.3 kB takes some 10 MB. Rewriting one reads two, and needs two buffers of 256 kB for each of then 63 columns:
some 80 MB with the rows themselves. With only a fifth of 256 MB freed, DuckDB evicted blocks during the rewrite."""

_CACHE_DIVISOR: Final = 16
_LEAST_CACHED_BYTES: Final = 32 << 20
"""Blocks of the file that DuckDB keeps in memory after a checkpoint: memory limit / divisor, or at least this many
bytes. Guesses (ADR 095)."""


def clear_buffers(connection: duckdb.DuckDBPyConnection) -> None:
    """Return unused memory of DuckDB to the system, and make room for what the next step writes.

    At its memory limit, DuckDB evicts a block and reuses its buffer, without clearing the old contents. Lowering the
    limit for a moment makes DuckDB free such buffers instead. For the writer's thread, or while no writer runs; a
    reader has less memory in that moment.

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
    """Evict cached blocks of the file beyond a share of the memory limit.

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
