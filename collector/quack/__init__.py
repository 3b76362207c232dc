"""DuckDB's remote protocol: a process of its own that speaks it, and asks the server as any client does."""
