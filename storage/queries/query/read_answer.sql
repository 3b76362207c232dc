-- An answer to a client of DuckDB's remote protocol, from the file that it was written to.
SELECT /* columns */
FROM read_parquet('/* file */', file_row_number := true);
