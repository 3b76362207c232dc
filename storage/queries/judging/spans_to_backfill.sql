-- Return the columns that a rule reads, of spans of one tenant, or of all. They come after one number and up to
-- another, start between two instants, and have no final decision of the rule. Decisions that wait for another rule's
-- result are not final.
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
