-- The first $spans spans of one trace between two instants, by start time.
SELECT *
FROM span
WHERE tenant = $tenant
    AND trace_id = $trace_id
    AND start_time BETWEEN make_timestamp_ns($from_ns) AND make_timestamp_ns($to_ns)
ORDER BY start_time, span_id
LIMIT $spans;
