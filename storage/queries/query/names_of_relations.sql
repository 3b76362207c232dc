-- The names of all tables and views, of DuckDB's own too, in lower case.
SELECT lower(view_name) FROM duckdb_views()
UNION
SELECT lower(table_name) FROM duckdb_tables();
