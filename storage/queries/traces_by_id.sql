-- Traces by their ids.
SELECT
    trace_id,
    tenant,
    project,
    service_name,
    root_name,
    epoch_ns(start_time),
    epoch_ns(end_time),
    span_count,
    error_count,
    epoch_ns(expires_at),
    epoch_ns(last_start_time)
FROM trace_roll_up
WHERE tenant = ? AND trace_id IN
