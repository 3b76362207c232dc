-- Define the parts of traces that are in the lake alone. What moved, and which of it has rows in the database all the
-- same, is read with the rows, so the answer stays the same while traces move. Parts are compared one by one, since a
-- trace leaves by commits.
CREATE VIEW lake.alone.trace_part AS
SELECT $columns
FROM read_parquet(getvariable('lake')['trace_part'], union_by_name = true, hive_partitioning = false) AS l
INNER JOIN tracejury.main.lake_boundary AS b ON b.directory_id = l.directory_id AND l.batch < b.first_batch
ANTI JOIN (
    SELECT write_number
    FROM tracejury.main.trace_part
    WHERE batch < getvariable('lake')['batch']
) AS h ON h.write_number = l.write_number
ANTI JOIN tracejury.main.lake_removal AS r
    ON r.tenant = l.tenant AND r.trace_id = l.trace_id AND r.last_write >= l.write_number;
