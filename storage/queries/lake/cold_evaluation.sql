-- Define the results that are in the lake alone. Results about traces that moved before are in both for a while.
CREATE VIEW lake.alone.evaluation AS
SELECT $columns
FROM read_parquet(getvariable('lake')['evaluation'], union_by_name = true, hive_partitioning = false) AS l
INNER JOIN tracejury.main.lake_boundary AS b ON b.directory_id = l.directory_id AND l.seq < b.first_seq
ANTI JOIN (
    SELECT number
    FROM tracejury.main.evaluation
    WHERE seq < getvariable('lake')['seq']
) AS h ON h.number = l.number
ANTI JOIN tracejury.main.lake_removal AS r
    ON r.tenant = l.tenant AND r.trace_id = l.trace_id AND r.last_result >= l.number;
