-- How the traces of a time went, of each step of it and of all, and of the time before, from $before_ns to $from_ns: `step`
-- is NULL in the sums, of which one is of the time before.
WITH found AS (
    SELECT
        tenant,
        trace_id,
        epoch_ns(min(start_time)) AS start_ns,
        (epoch_ns(max(end_time)) - epoch_ns(min(start_time))) / 1e6 AS duration_ms,
        sum(error_count) AS error_count,
        coalesce(arg_min(root_project, root_start_time), arg_min(first_project, start_time)) AS project
    FROM trace_part
    WHERE start_time >= make_timestamp_ns($before_ns) AND start_time < make_timestamp_ns($until_ns)
        AND ($tenant::VARCHAR IS NULL OR tenant IN ($tenant, ''))
    GROUP BY tenant, trace_id
),
told AS (
    SELECT tenant, trace_id, cost_usd, coalesce(input_tokens, 0) + coalesce(output_tokens, 0) AS tokens
    FROM trace_reading
    WHERE start_time >= make_timestamp_ns($before_ns) AND start_time < make_timestamp_ns($until_ns)
),
placed AS (
    SELECT
        f.start_ns >= $from_ns AS is_now,
        CASE WHEN f.start_ns >= $from_ns THEN (f.start_ns - $from_ns) // $step_ns END AS number,
        f.duration_ms,
        f.error_count,
        t.cost_usd,
        t.tokens
    FROM found AS f
    LEFT JOIN told AS t ON t.tenant = f.tenant AND t.trace_id = f.trace_id
    WHERE $project::VARCHAR IS NULL OR f.project = $project
)
SELECT
    is_now,
    number::INTEGER AS step,
    count(*) AS traces,
    count(*) FILTER (WHERE error_count > 0) AS failed,
    approx_quantile(duration_ms, [0.5, 0.95, 0.99]) AS latencies_ms,
    sum(cost_usd) AS cost_usd,
    coalesce(sum(tokens), 0)::BIGINT AS tokens
FROM placed
GROUP BY GROUPING SETS ((is_now), (is_now, number))
HAVING grouping(number) = 1 OR number IS NOT NULL
ORDER BY is_now, step NULLS FIRST;
