-- Count the traces of sessions that start between two instants, up to $newest, and return the start of the earliest of
-- them.
SELECT count(*), epoch_ns(min(start_time))
FROM (
    SELECT start_time
    FROM trace_reading
    WHERE session_id IS NOT NULL
        AND start_time BETWEEN make_timestamp_ns($from_ns) AND make_timestamp_ns($to_ns)
        AND ($tenant::VARCHAR IS NULL OR tenant IN ($tenant, ''))
    ORDER BY start_time DESC
    LIMIT $newest
);
