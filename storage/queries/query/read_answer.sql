-- Return a response to a client of DuckDB's remote protocol, from the file with its content.
SELECT /* columns */
FROM read_parquet('/* file */', file_row_number := true);
