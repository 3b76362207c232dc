-- Return spans as targets of a trial.
SELECT
    trace_id,
    span_id,
    name,
    service_name,
    start_time,
    clause,
    false AS root_ended,
    received_at AS first_arrival,
    received_at AS last_arrival,
    tenant,
    seq,
    project,
    NULL AS session_id
FROM looked_at;
