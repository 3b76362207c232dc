"""DuckDB writes what its memory held before into unused parts of blocks: see ADR 043."""

from pathlib import Path

import duckdb

READ = "a text that was read"


def test_duckdb_still_leaves_other_texts_in_blocks(tmp_path: Path) -> None:
    """Delete this test, the limit in docs/retention.md and `WORDS_LEFT` of the trial of deletions once it fails."""
    written = tmp_path / "written.duckdb"
    with duckdb.connect(config={"threads": 1, "memory_limit": "64MB", "temp_directory": str(tmp_path)}) as connection:
        connection.execute(f"ATTACH '{tmp_path / 'read.duckdb'}' AS read (STORAGE_VERSION 'v1.4.0')")
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
            connection.execute(
                "INSERT INTO written.t SELECT md5(i::VARCHAR) || repeat(md5((i * 7)::VARCHAR), 10)"
                " FROM range($1, $1 + 8192) AS r(i)",
                [8192 * batch],
            )
            connection.execute("CHECKPOINT written")
    assert READ.encode() in written.read_bytes()
