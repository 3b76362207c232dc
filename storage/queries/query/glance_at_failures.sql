-- Count the failed spans of a period by name, most frequent first, and those of the period before.
SELECT
    name,
    count(*) FILTER (WHERE is_now) AS failed,
    count(*) FILTER (WHERE NOT is_now) AS failed_before,
    count(DISTINCT trace_id) FILTER (WHERE is_now) AS traces,
    arg_max(error_type, start_time) FILTER (WHERE is_now) AS error_type
FROM (
    SELECT name, trace_id, error_type, start_time, start_time >= make_timestamp_ns($from_ns) AS is_now
    FROM span
    WHERE start_time >= make_timestamp_ns($before_ns) AND start_time < make_timestamp_ns($until_ns)
        AND status_code = 2
        AND ($tenant::VARCHAR IS NULL OR tenant IN ($tenant, ''))
        AND ($project::VARCHAR IS NULL OR project = $project)
)
GROUP BY name
HAVING failed > 0
ORDER BY failed DESC, name
LIMIT $rows;
