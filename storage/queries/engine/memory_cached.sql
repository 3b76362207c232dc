-- Return how many bytes DuckDB holds in memory, and how many of them are blocks of the file.
SELECT
    sum(memory_usage_bytes)::BIGINT,
    coalesce(sum(memory_usage_bytes) FILTER (WHERE tag = 'BASE_TABLE'), 0)::BIGINT
FROM duckdb_memory();
