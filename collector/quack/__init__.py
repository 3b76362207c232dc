"""DuckDB's remote protocol, in a child process that sends queries to the server as any client does."""
