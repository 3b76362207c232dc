-- How many of some spans lie in each of equal stretches of an axis, which is their start time or their number, and the
-- least and the greatest of their numbers; stretches that hold none are left out.
SELECT ($axis - $start) // $step AS stretch, count(*), min(seq), max(seq)
FROM span
WHERE start_time BETWEEN make_timestamp_ns($first_ns) AND make_timestamp_ns($last_ns)
    AND seq BETWEEN $first_seq AND $last_seq
    AND ($tenant::VARCHAR IS NULL OR tenant IN ($tenant, $or_tenant))
    AND ($trace_id::VARCHAR IS NULL OR trace_id = $trace_id)
GROUP BY stretch
ORDER BY stretch;
