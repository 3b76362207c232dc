-- Return the first $spans spans of one trace by start. They start between two instants and belong to the commits
-- between two numbers: row groups hold few commits each, but overlap in time.
SELECT *
FROM span
WHERE tenant = $tenant
    AND trace_id = $trace_id
    AND start_time BETWEEN make_timestamp_ns($from_ns) AND make_timestamp_ns($to_ns)
    AND batch BETWEEN $first_batch AND $last_batch
ORDER BY start_time, span_id
LIMIT $spans;
