-- Define the tool calls that are in the lake alone: those that were found before the parts of their trace that the
-- database has.
CREATE VIEW lake.alone.tool_call AS
SELECT $columns
FROM read_parquet(getvariable('lake')['tool_call'], union_by_name = true, hive_partitioning = false) AS l
INNER JOIN tracejury.main.lake_boundary AS b ON b.directory_id = l.directory_id
SEMI JOIN lake.alone.trace_part AS p
    ON p.directory_id = l.directory_id AND p.tenant = l.tenant AND p.trace_id = l.trace_id
ANTI JOIN (
    SELECT tenant, trace_id, write_number
    FROM tracejury.main.trace_part
    WHERE start_time <= getvariable('lake')['until']
) AS h ON h.tenant = l.tenant AND h.trace_id = l.trace_id AND h.write_number < l.write_number;
