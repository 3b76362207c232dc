-- Define the log records that are in the lake alone, as `lake.alone.trace_part` does of parts of traces.
CREATE VIEW lake.alone.log_record AS
SELECT $columns
FROM read_parquet(getvariable('lake')['log_record'], union_by_name = true, hive_partitioning = false) AS l
INNER JOIN tracejury.main.lake_boundary AS b ON b.directory_id = l.directory_id AND l.batch < b.first_batch
ANTI JOIN (
    SELECT write_number
    FROM tracejury.main.log_record
    WHERE batch < getvariable('lake')['batch']
) AS h ON h.write_number = l.write_number
ANTI JOIN tracejury.main.lake_removal AS r
    ON r.tenant = l.tenant AND r.trace_id = l.trace_id AND r.last_write >= l.write_number;
