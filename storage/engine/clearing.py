"""DuckDB's buffers without the words that they held: else it writes some into unused parts of blocks (ADR 043)."""

import logging
from typing import Final

import duckdb

from storage import sql
from storage.engine.attaching import memory_bytes

log = logging.getLogger(__name__)

_SHARE: Final = 0.4
_MOST_ROOM_BYTES: Final = 128 << 20
"""A row group of spans of 1.3 kB takes some 10 MB as it is stored. Who writes it anew reads two of them, and has two
buffers of 256 kB for each of 63 columns, some 80 MB with the rows themselves; where a fifth of 256 MB was given back,
DuckDB evicted blocks in the middle of it."""


def clear_buffers(connection: duckdb.DuckDBPyConnection) -> None:
    """Give memory that DuckDB does not use back to the system, and make room for what the next step writes.

    Where DuckDB has as much in memory as it may, it writes into the buffer of a block that it evicts, with all that
    this held. A limit that is lower for a moment has it give such buffers back instead. For the writer's thread, or
    while nobody writes: who reads in that moment has less memory.
    """
    ((limit,),) = connection.execute("SELECT current_setting('memory_limit')").fetchall()
    ((used_bytes,),) = connection.execute(sql.query("memory_in_use")).fetchall()
    limit_bytes = memory_bytes(connection)
    room_bytes = min(int(limit_bytes * _SHARE), _MOST_ROOM_BYTES)
    try:
        if used_bytes > limit_bytes - room_bytes:
            connection.execute(f"SET GLOBAL memory_limit = '{limit_bytes - room_bytes}B'")
    except duckdb.OutOfMemoryException as error:  # it is in use
        log.debug("no room can be made: %s", error)
    finally:
        connection.execute(f"SET GLOBAL memory_limit = '{limit}'")  # which also gives back what is not used
