-- Define the sums of traces that are in the lake alone. A trace that a span reached after it had moved has new sums, of
-- its later spans alone, in the database and then here. Of two sums of a trace the later ones count.
CREATE VIEW lake.alone.trace_reading AS
SELECT $columns
FROM read_parquet(getvariable('lake')['trace_reading'], union_by_name = true, hive_partitioning = false) AS l
INNER JOIN tracejury.main.lake_boundary AS b ON b.directory_id = l.directory_id
SEMI JOIN lake.alone.trace_part AS p
    ON p.directory_id = l.directory_id AND p.tenant = l.tenant AND p.trace_key = $trace_key
ANTI JOIN (
    SELECT tenant, trace_key
    FROM tracejury.main.trace_reading
    WHERE start_time <= getvariable('lake')['until']
) AS h ON h.trace_key = $trace_key AND h.tenant = l.tenant
WHERE l.start_time <= epoch_ns(getvariable('lake')['until']) -- of later ones copies are published, but none moved
QUALIFY row_number() OVER (PARTITION BY l.tenant, l.trace_key ORDER BY l.write_number DESC) = 1;
