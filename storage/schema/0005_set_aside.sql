-- How many spans and log records DuckDB refused and were written to files instead.
ALTER TABLE ingest_state ADD COLUMN set_aside BIGINT DEFAULT 0;
