-- Define the results of jobs over the lake, which are in the lake alone.
CREATE VIEW lake.alone.backfill_result AS
SELECT $columns
FROM read_parquet(getvariable('lake')['backfill_result'], union_by_name = true, hive_partitioning = false) AS l
INNER JOIN tracejury.main.lake_boundary AS b ON b.directory_id = l.directory_id AND b.first_batch > 0
ANTI JOIN tracejury.main.backfill_result AS h ON h.job = l.job AND h.write_number = l.write_number
ANTI JOIN tracejury.main.lake_removal AS r
    ON r.tenant = l.tenant AND r.trace_id = l.trace_id AND r.last_write >= l.write_number;
