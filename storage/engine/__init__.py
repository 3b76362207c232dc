"""DuckDB and its file: opening, the schema, transactions, checkpoints, room that is given back."""
