-- Return the names of the tables of a catalog.
SELECT table_name
FROM duckdb_tables()
WHERE database_name = $catalog;
