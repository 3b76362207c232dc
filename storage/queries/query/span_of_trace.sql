-- Return one span of a trace; bounds as in `spans_of_trace`.
SELECT *
FROM span
WHERE tenant = $tenant
    AND trace_id = $trace_id
    AND span_id = $span_id
    AND start_time BETWEEN make_timestamp_ns($from_ns) AND make_timestamp_ns($to_ns)
    AND batch BETWEEN $first_batch AND $last_batch
LIMIT 1;
