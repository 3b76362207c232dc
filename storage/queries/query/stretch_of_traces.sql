-- Count the trace parts that start at or before an instant, up to $parts, and return the start of the earliest of
-- them.
SELECT count(*), epoch_ns(min(start_time))
FROM (
    SELECT start_time
    FROM trace_part
    WHERE start_time BETWEEN make_timestamp_ns($from_ns) AND make_timestamp_ns($until_ns)
        AND ($tenant IS NULL OR tenant IN ($tenant, ''))
    ORDER BY start_time DESC
    LIMIT $parts
);
