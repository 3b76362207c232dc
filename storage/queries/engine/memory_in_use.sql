-- Return how many bytes DuckDB holds in memory.
SELECT sum(memory_usage_bytes)::BIGINT
FROM duckdb_memory();
