-- Return the usage of each model in a period, highest cost first, and its calls in the period before. A call that two
-- libraries record counts twice.
SELECT
    model,
    count(*) FILTER (WHERE is_now) AS calls,
    count(*) FILTER (WHERE NOT is_now) AS calls_before,
    count(*) FILTER (WHERE is_now AND status_code = 2) AS failed,
    least(coalesce(sum(input_tokens) FILTER (WHERE is_now), 0), 9223372036854775807)::BIGINT AS input_tokens,
    least(coalesce(sum(output_tokens) FILTER (WHERE is_now), 0), 9223372036854775807)::BIGINT AS output_tokens,
    sum(cost_usd) FILTER (WHERE is_now) AS cost_usd
FROM (
    SELECT *, start_time >= make_timestamp_ns($from_ns) AS is_now
    FROM span
    WHERE start_time >= make_timestamp_ns($before_ns) AND start_time < make_timestamp_ns($until_ns)
        AND span_type = 'llm'
        AND model IS NOT NULL
        AND ($tenant::VARCHAR IS NULL OR tenant IN ($tenant, ''))
        AND ($project::VARCHAR IS NULL OR project = $project)
)
GROUP BY model
HAVING calls > 0
ORDER BY cost_usd DESC NULLS LAST, calls DESC, model
LIMIT $rows;
