-- Summarize the traces of a period by time step and in total, and of the period before, from $before_ns to $from_ns.
-- `step` is NULL in totals, one of which is that of the period before.
WITH placed AS (
    SELECT
        start_time >= make_timestamp_ns($from_ns) AS is_now,
        CASE
            WHEN start_time >= make_timestamp_ns($from_ns)
                THEN (epoch_ns(start_time) - $from_ns) // $step_ns
        END AS number,
        (epoch_ns(end_time) - epoch_ns(start_time)) / 1e6 AS duration_ms,
        error_count,
        cost_usd,
        coalesce(input_tokens, 0)::HUGEINT + coalesce(output_tokens, 0) AS tokens
    FROM trace_totals
    WHERE start_time >= make_timestamp_ns($before_ns) AND start_time < make_timestamp_ns($until_ns)
        AND ($tenant::VARCHAR IS NULL OR tenant IN ($tenant, ''))
        AND ($project::VARCHAR IS NULL OR project = $project)
)
SELECT
    is_now,
    number::INTEGER AS step,
    count(*) AS traces,
    count(*) FILTER (WHERE error_count > 0) AS failed,
    approx_quantile(duration_ms, [0.5, 0.95, 0.99]) AS latencies_ms,
    sum(cost_usd) AS cost_usd,
    least(coalesce(sum(tokens), 0), 9223372036854775807)::BIGINT AS tokens
FROM placed
GROUP BY GROUPING SETS ((is_now), (is_now, number))
HAVING grouping(number) = 1 OR number IS NOT NULL
ORDER BY is_now, step NULLS FIRST;
