-- Return the names of all tables and views, including DuckDB's own, in lower case.
SELECT lower(view_name) FROM duckdb_views()
UNION
SELECT lower(table_name) FROM duckdb_tables();
