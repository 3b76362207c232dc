"""DuckDB writes what its memory held before into unused parts of blocks: see ADR 043."""

from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from storage.engine.attaching import memory_bytes
from storage.engine.clearing import clear_buffers

READ = "a text that was read"
CONFIGS: list[dict[str, str | int]] = [{"threads": 1, "memory_limit": "64MB"}, {"threads": 2, "memory_limit": "128MB"}]


def _left(folder: Path, config: dict[str, str | int], clear: Callable[[duckdb.DuckDBPyConnection], None]) -> int:
    """Count the texts of removed rows in a file that other texts were written to."""
    written = folder / "written.duckdb"
    with duckdb.connect(config={**config, "temp_directory": str(folder)}) as connection:
        connection.execute(f"ATTACH '{folder / 'read.duckdb'}' AS read (STORAGE_VERSION 'v1.4.0')")
        connection.execute(f"ATTACH '{written}' AS written (STORAGE_VERSION 'v1.4.0', ROW_GROUP_SIZE 8192)")
        connection.execute("SET force_compression = 'uncompressed'")
        connection.execute(
            f"CREATE TABLE read.t AS SELECT '{READ}' || i || repeat('x', 600) AS x FROM range(100000) AS r(i)"
        )
        connection.execute("CHECKPOINT read")
        connection.execute("SET force_compression = 'auto'")
        connection.execute("SET GLOBAL disabled_compression_methods = 'dict_fsst,fsst,dictionary'")
        connection.execute("SET zstd_min_string_length = 16")
        connection.execute("CREATE TABLE written.t (x VARCHAR)")
        for batch in range(8):
            connection.execute("SELECT count(*) FROM read.t WHERE x LIKE '%y%'").fetchall()
            clear(connection)
            connection.execute(
                "INSERT INTO written.t SELECT md5(i::VARCHAR) || repeat(md5((i * 7)::VARCHAR), 10)"
                " FROM range($1, $1 + 8192) AS r(i)",
                [8192 * batch],
            )
            clear(connection)
            connection.execute("CHECKPOINT written")
    return written.read_bytes().count(READ.encode())


def test_duckdb_still_leaves_other_texts_in_blocks(tmp_path: Path) -> None:
    """Once it fails, delete `clear_buffers`, the limit in docs/retention.md and `WORDS_LEFT` of the trial."""
    assert _left(tmp_path, CONFIGS[0], lambda _: None) > 0


@pytest.mark.parametrize("config", CONFIGS)
def test_cleared_buffers_leave_nothing(config: dict[str, str | int], tmp_path: Path) -> None:
    """Unused parts of DuckDB's buffers hold no texts that it could write to the file."""
    assert _left(tmp_path, config, clear_buffers) == 0


def test_the_limit_is_what_it_was() -> None:
    """Also where room cannot be made, because everything is in use."""
    with duckdb.connect(config={"memory_limit": "64MB"}) as connection:
        limit_bytes = memory_bytes(connection)
        connection.execute("CREATE TABLE held AS SELECT i FROM range(7_000_000) AS r(i)")
        clear_buffers(connection)
        clear_buffers(connection)
        assert memory_bytes(connection) == limit_bytes
