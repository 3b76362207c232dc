-- Return the releasable memory that DuckDB uses for other things than tables.
SELECT coalesce(sum(memory_usage_bytes), 0)::BIGINT FROM duckdb_memory()
WHERE tag NOT IN ('BASE_TABLE', 'METADATA', 'OVERFLOW_STRINGS', 'IN_MEMORY_TABLE', 'TRANSACTION', 'ART_INDEX', 'OBJECT_CACHE', 'EXTERNAL_FILE_CACHE');
