-- Return the number of row ids of a table, including deleted rows.
SELECT estimated_size
FROM duckdb_tables()
WHERE database_name = $catalog AND table_name = $table;
