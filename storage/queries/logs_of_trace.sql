-- The first $logs log records of one trace, by time and then as they came.
SELECT
    tenant,
    trace_id,
    span_id,
    epoch_ns(logged_at),
    event_name,
    body,
    body_type,
    attributes,
    attribute_types
FROM log_record
WHERE tenant = $tenant AND trace_id = $trace_id
ORDER BY logged_at, rowid
LIMIT $logs;
