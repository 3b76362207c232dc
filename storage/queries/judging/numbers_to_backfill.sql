-- Return the next spans that start between two instants, in the order of commits; of one tenant or all, and of some
-- traces or all.
SELECT seq
FROM span
WHERE seq > $after AND seq <= $until
    AND ($tenant::VARCHAR IS NULL OR tenant = $tenant)
    AND start_time >= make_timestamp_ns($from_ns) AND start_time < make_timestamp_ns($to_ns)
    AND ($trace_ids::VARCHAR[] IS NULL OR list_contains($trace_ids::VARCHAR[], trace_id))
LIMIT $rows;
