-- What a rule asks about the spans of one tenant, or of all, after one and up to another, which start between two instants, and about
-- which it has not decided: some columns, and whatever else it needs.
SELECT
    seq,
    tenant,
    trace_id,
    span_id,
    project,
    start_time/* asked */
FROM spans
WHERE seq > $after AND seq <= $until
    AND ($tenant::VARCHAR IS NULL OR tenant = $tenant)
    AND start_time >= make_timestamp_ns($from_ns) AND start_time < make_timestamp_ns($to_ns)
    AND seq NOT IN (
        SELECT d.seq
        FROM decision AS d
        WHERE d.outcome <> 3 AND d.revision = $revision AND d.seq > $after AND d.seq <= $until
    );
