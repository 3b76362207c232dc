-- How many places a table has, those of deleted rows as well.
SELECT estimated_size
FROM duckdb_tables()
WHERE database_name = $catalog AND table_name = $table;
