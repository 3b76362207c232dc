-- The tables of the database.
SELECT table_name
FROM duckdb_tables()
WHERE database_name = $catalog AND NOT internal
ORDER BY table_name;
