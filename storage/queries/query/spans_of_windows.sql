-- Count the spans of traces that began in a window, or in the same window a day or a week earlier.
SELECT coalesce(sum(span_count), 0)::BIGINT
FROM trace_totals
WHERE (
    (start_time >= make_timestamp_ns($from_ns) AND start_time < make_timestamp_ns($until_ns))
    OR (start_time >= make_timestamp_ns($day_from_ns) AND start_time < make_timestamp_ns($day_until_ns))
    OR (start_time >= make_timestamp_ns($week_from_ns) AND start_time < make_timestamp_ns($week_until_ns))
)
AND ($tenant::VARCHAR IS NULL OR tenant IN ($tenant, ''));
