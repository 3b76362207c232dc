-- Return the keys of the latest spans with their commits, at most $rows of them, in whole commits.
SELECT tenant, trace_id, span_id, batch
FROM span
WHERE batch > coalesce((
    SELECT max(batch)
    FROM (
        SELECT batch, sum(sum(span_count)) OVER (ORDER BY batch DESC) AS rows_since
        FROM trace_part
        GROUP BY batch
    )
    WHERE rows_since > $rows
), 0);
