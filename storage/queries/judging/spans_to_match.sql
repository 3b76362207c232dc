-- Return the columns that rules read, of the spans after one number and up to another.
SELECT
    seq,
    tenant,
    trace_id,
    span_id,
    project,
    start_time,
    service_name,
    parent_span_id IS NULL AS is_root,
    end_time IS NOT NULL AS has_ended/* asked */
FROM spans
WHERE seq > $after AND seq <= $until;
