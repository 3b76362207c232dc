-- What a rule asks about the spans of one tenant, or of all, after one and up to another, which start between two instants, and about
-- which it has not decided for good: some columns, and whatever else it needs. What another rule's result did not call for is
-- decided about again.
SELECT
    seq,
    tenant,
    trace_id,
    span_id,
    project,
    start_time,
    service_name/* asked */
FROM spans
WHERE seq > $after AND seq <= $until
    AND ($tenant::VARCHAR IS NULL OR tenant = $tenant)
    AND start_time >= make_timestamp_ns($from_ns) AND start_time < make_timestamp_ns($to_ns)
    AND ($trace_ids::VARCHAR[] IS NULL OR list_contains($trace_ids::VARCHAR[], trace_id))
    AND seq NOT IN (
        SELECT d.seq
        FROM decision AS d
        WHERE d.outcome <> 3 AND d.revision = $revision AND d.seq > $after AND d.seq <= $until
            AND NOT (
                d.outcome = 2
                AND EXISTS (
                    SELECT 1 FROM rule_revision WHERE revision = $revision AND (document ->> '$.after.rule') IS NOT NULL
                )
                AND d.seq NOT IN (SELECT seq FROM job WHERE revision = $revision)
                AND d.seq NOT IN (
                    SELECT seq FROM evaluation WHERE revision = $revision AND seq > $after AND seq <= $until
                )
            )
    );
