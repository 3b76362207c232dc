-- Define the sums of traces that are in the lake alone. A trace that a span reached after it had moved has new sums, of
-- its later spans alone, in the database and then here. Of two sums of a trace the later ones count. They are compared by
-- a join, since a condition on a column does not reach the scan below a window.
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
ANTI JOIN (
    SELECT r.tenant, r.trace_key, r.write_number
    FROM read_parquet(getvariable('lake')['trace_reading'], union_by_name = true, hive_partitioning = false) AS r
    SEMI JOIN lake.alone.trace_part AS p
        ON p.directory_id = r.directory_id AND p.tenant = r.tenant AND p.trace_key = $key_of_later
    WHERE r.start_time <= epoch_ns(getvariable('lake')['until'])
) AS later ON later.tenant = l.tenant AND later.trace_key = l.trace_key AND later.write_number > l.write_number
WHERE l.start_time <= epoch_ns(getvariable('lake')['until']); -- of later ones copies are published, but none moved
