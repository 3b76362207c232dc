-- Return the users whose traces began in a period, highest cost first.
SELECT
    user_id,
    count(*) AS traces,
    least(coalesce(sum(tokens), 0), 9223372036854775807)::BIGINT AS tokens,
    sum(cost_usd) AS cost_usd
FROM (SELECT *, coalesce(input_tokens, 0)::HUGEINT + coalesce(output_tokens, 0) AS tokens FROM trace_totals)
WHERE start_time >= make_timestamp_ns($from_ns) AND start_time < make_timestamp_ns($until_ns)
    AND user_id IS NOT NULL
    AND ($tenant::VARCHAR IS NULL OR tenant IN ($tenant, ''))
    AND ($project::VARCHAR IS NULL OR project = $project)
GROUP BY user_id
ORDER BY cost_usd DESC NULLS LAST, traces DESC, user_id
LIMIT $rows;
