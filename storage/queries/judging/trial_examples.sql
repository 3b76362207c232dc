-- Return targets of a trial that would be evaluated, newest first, with the times at which they settle.
SELECT
    trace_id,
    span_id,
    name,
    service_name,
    epoch_ns(start_time),
    root_ended,
    epoch_ns(first_arrival),
    epoch_ns(last_arrival),
    epoch_ns(now()::TIMESTAMP),
    tenant,
    seq,
    project,
    session_id
FROM target
WHERE clause IS NULL AND sampled AND flagged
ORDER BY start_time DESC, trace_id, span_id
LIMIT 5;
