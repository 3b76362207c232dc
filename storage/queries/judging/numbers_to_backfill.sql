-- The next spans of one tenant, or of all, and of some traces, or of all, that start between two instants, in the order
-- of their commits.
SELECT seq
FROM span
WHERE seq > $after AND seq <= $until
    AND ($tenant::VARCHAR IS NULL OR tenant = $tenant)
    AND start_time >= make_timestamp_ns($from_ns) AND start_time < make_timestamp_ns($to_ns)
    AND ($trace_ids::VARCHAR[] IS NULL OR list_contains($trace_ids::VARCHAR[], trace_id))
LIMIT $rows;
