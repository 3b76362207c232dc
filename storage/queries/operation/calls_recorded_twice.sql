-- Pairs of scopes that recorded the same calls of models in two traces each: among the latest 4,000 calls of a time, of
-- one service and project, at overlapping times. They have one response id; or, if one of them has none, equal usage and
-- one model. Two calls of different scopes can agree so by chance, but hardly three. 36 ms for 200,000 spans, half of
-- which are looked at; 61 ms if all calls have the same usage.
WITH calls AS (
    SELECT
        tenant,
        project,
        service_name,
        trace_id,
        scope_name,
        nullif(response_id, '') AS response_id,
        model,
        input_tokens,
        output_tokens,
        start_time,
        end_time
    FROM span
    WHERE seq > (SELECT max(seq) FROM span) - $latest
        AND received_at >= make_timestamp($since_us)
        AND span_type = 'llm'
        AND scope_name <> ''
    ORDER BY seq DESC
    LIMIT 4000
),

pairs AS (
    SELECT a.tenant, a.project, a.scope_name AS one, b.scope_name AS other, a.trace_id, TRUE AS has_id
    FROM calls AS a
    JOIN calls AS b USING (tenant, project, service_name, response_id)
    WHERE a.scope_name < b.scope_name
        AND a.trace_id <> b.trace_id
        AND a.start_time <= b.end_time
        AND b.start_time <= a.end_time
    UNION ALL
    SELECT a.tenant, a.project, a.scope_name, b.scope_name, a.trace_id, FALSE
    FROM calls AS a
    JOIN calls AS b USING (tenant, project, service_name, input_tokens, output_tokens)
    WHERE a.scope_name < b.scope_name
        AND a.trace_id <> b.trace_id
        AND (a.response_id IS NULL OR b.response_id IS NULL)
        AND (starts_with(a.model, b.model) OR starts_with(b.model, a.model))
        AND a.input_tokens + a.output_tokens > 0
        AND a.start_time <= b.end_time
        AND b.start_time <= a.end_time
)

SELECT tenant, project, one, other, count(DISTINCT trace_id) AS calls
FROM pairs
GROUP BY ALL
HAVING bool_or(has_id) OR count(DISTINCT trace_id) >= 3
ORDER BY calls DESC
LIMIT 20;
