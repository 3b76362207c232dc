-- Return the spans of one window. They are sorted outside, so that reading can end before all are read.
SELECT *
FROM span
WHERE start_time BETWEEN make_timestamp_ns($first_ns) AND make_timestamp_ns($last_ns)
    AND seq BETWEEN $first_seq AND $last_seq
    AND ($tenant::VARCHAR IS NULL OR tenant IN ($tenant, $or_tenant))
    AND ($trace_id::VARCHAR IS NULL OR trace_id = $trace_id);
