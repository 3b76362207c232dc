"""DuckDB and its file: opening, the schema, transactions, checkpoints, free space."""
