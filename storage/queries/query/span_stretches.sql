-- Count spans in equal steps of their start time or number, and return the least and the greatest number in each;
-- empty steps are omitted.
SELECT ($axis - $start) // $step AS stretch, count(*), min(seq), max(seq)
FROM span
WHERE start_time BETWEEN make_timestamp_ns($first_ns) AND make_timestamp_ns($last_ns)
    AND seq BETWEEN $first_seq AND $last_seq
    AND ($tenant::VARCHAR IS NULL OR tenant IN ($tenant, $or_tenant))
    AND ($trace_id::VARCHAR IS NULL OR trace_id = $trace_id)
GROUP BY stretch
ORDER BY stretch;
