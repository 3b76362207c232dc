"""DuckDB: records, schema, the spool, the writer and the queries."""
