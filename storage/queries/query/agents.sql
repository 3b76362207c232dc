-- Sum the traces of each agent in a window and in the same window a day and a week earlier: a row for each agent and
-- window. An agent is a service, with $names also the name of a trace's earliest agent span. A trace passed if no
-- verdict on it failed. `steps` and `worst` are of the window itself.
WITH result AS (
    SELECT tenant, trace_id, passed, coalesce(fingerprint, '') AS fingerprint
    FROM evaluation
    WHERE created_at >= make_timestamp($week_from_ns::BIGINT // 1000) -- nothing is judged before it started
        AND (
            coalesce(started_at, created_at) >= make_timestamp($from_ns::BIGINT // 1000)
            OR coalesce(started_at, created_at) BETWEEN make_timestamp($day_from_ns::BIGINT // 1000) AND make_timestamp($day_until_ns::BIGINT // 1000) + INTERVAL 1 HOUR
            OR coalesce(started_at, created_at) BETWEEN make_timestamp($week_from_ns::BIGINT // 1000) AND make_timestamp($week_until_ns::BIGINT // 1000) + INTERVAL 1 HOUR
        )
        AND passed IS NOT NULL
        AND session_id IS NULL
        AND ($tenant::VARCHAR IS NULL OR tenant IN ($tenant, ''))
        AND ($project::VARCHAR IS NULL OR project = $project)
        AND job_id NOT IN (SELECT job_id FROM superseded)
),
evaluator AS ( -- a bit for each: lists of fingerprints by trace would take ten times as long as all the rest
    SELECT fingerprint, 1::HUGEINT << ((row_number() OVER (ORDER BY fingerprint) - 1) % 126)::INTEGER AS bit
    FROM (SELECT DISTINCT fingerprint FROM result)
),
verdict AS (
    SELECT tenant, trace_id, count(*) FILTER (WHERE NOT passed) AS failed, bit_or(bit) AS evaluators
    FROM result
    INNER JOIN evaluator USING (fingerprint)
    GROUP BY tenant, trace_id
),
agent AS (
    SELECT tenant, trace_id, arg_min("name", start_time) AS "name"
    FROM span
    WHERE $names
        AND span_type = 'agent'
        AND (
            start_time >= make_timestamp_ns($from_ns)
            OR start_time BETWEEN make_timestamp_ns($day_from_ns) AND make_timestamp_ns($day_until_ns) + INTERVAL 1 HOUR
            OR start_time BETWEEN make_timestamp_ns($week_from_ns) AND make_timestamp_ns($week_until_ns) + INTERVAL 1 HOUR
        )
        AND ($tenant::VARCHAR IS NULL OR tenant IN ($tenant, ''))
    GROUP BY tenant, trace_id
),
placed AS (
    SELECT
        tenant,
        trace_id,
        project,
        service_name AS service,
        root_name,
        start_time,
        CASE
            WHEN start_time >= make_timestamp_ns($from_ns) THEN 'now'
            WHEN start_time >= make_timestamp_ns($day_from_ns) THEN 'day'
            ELSE 'week'
        END AS "time",
        (epoch_ns(start_time) - $from_ns) // $step_ns AS step,
        (epoch_ns(end_time) - epoch_ns(start_time)) / 1e6 AS duration_ms,
        error_count,
        cost_usd,
        CASE
            WHEN input_tokens IS NOT NULL OR output_tokens IS NOT NULL
                THEN coalesce(input_tokens, 0)::HUGEINT + coalesce(output_tokens, 0)
        END AS tokens
    FROM trace_totals
    WHERE (
        (start_time >= make_timestamp_ns($from_ns) AND start_time < make_timestamp_ns($until_ns))
        OR (start_time >= make_timestamp_ns($day_from_ns) AND start_time < make_timestamp_ns($day_until_ns))
        OR (start_time >= make_timestamp_ns($week_from_ns) AND start_time < make_timestamp_ns($week_until_ns))
    )
    AND ($tenant::VARCHAR IS NULL OR tenant IN ($tenant, ''))
    AND ($project::VARCHAR IS NULL OR project = $project)
)
SELECT
    p.project,
    p.service,
    a."name" AS agent,
    p."time",
    count(*) AS traces,
    count(*) FILTER (WHERE p.error_count > 0) AS failed,
    approx_quantile(p.duration_ms, 0.95) AS p95_ms,
    sum(p.cost_usd) AS cost_usd,
    CASE WHEN count(p.tokens) > 0 THEN least(coalesce(sum(p.tokens), 0), 9223372036854775807)::BIGINT END AS tokens,
    count(v.trace_id) AS judged,
    count(*) FILTER (WHERE v.failed = 0) AS passed,
    bit_or(v.evaluators)::VARCHAR AS evaluators, -- equal if the same ones judged
    min(p.root_name) AS root_name,
    min(p.root_name) IS DISTINCT FROM max(p.root_name) AS has_root_names,
    histogram(p.step) FILTER (WHERE p."time" = 'now') AS steps,
    arg_max(
        {trace_id: p.trace_id, root_name: p.root_name, errors: p.error_count, failed_verdicts: coalesce(v.failed, 0), duration_ms: p.duration_ms},
        {bad: (p.error_count > 0)::INTEGER + (coalesce(v.failed, 0) > 0)::INTEGER, faults: p.error_count + coalesce(v.failed, 0), duration_ms: coalesce(p.duration_ms, 0), trace_id: p.trace_id},
        3
    ) FILTER (WHERE p."time" = 'now') AS worst
FROM placed AS p
LEFT JOIN agent AS a ON a.tenant = p.tenant AND a.trace_id = p.trace_id
LEFT JOIN verdict AS v ON v.tenant = p.tenant AND v.trace_id = p.trace_id
GROUP BY p.project, p.service, a."name", p."time"
ORDER BY p.project, p.service, a."name", p."time";
