-- Define the sums of traces that are in the lake alone. A trace that a span reached after it had moved has new sums in
-- the database, of its later spans alone.
CREATE VIEW lake.alone.trace_reading AS
SELECT $columns
FROM read_parquet(getvariable('lake')['trace_reading'], union_by_name = true, hive_partitioning = false) AS l
INNER JOIN tracejury.main.lake_boundary AS b ON b.directory_id = l.directory_id
SEMI JOIN lake.alone.trace_part AS p ON p.tenant = l.tenant AND p.trace_key = $trace_key
ANTI JOIN (
    SELECT tenant, trace_key
    FROM tracejury.main.trace_reading
    WHERE start_time <= getvariable('lake')['until']
) AS h ON h.trace_key = $trace_key AND h.tenant = l.tenant;
