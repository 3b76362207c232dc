-- Return calls, tokens and cost by day, counted from 0: of the models with the highest cost, of all others together, and
-- of all models, in which case `model` is NULL. A call that two libraries record counts twice.
WITH calls AS (
    SELECT
        model,
        ((epoch_ns(start_time) - $from_ns) // 86400000000000)::INTEGER AS "day",
        count(*) AS calls,
        sum(coalesce(input_tokens, 0)::HUGEINT + coalesce(output_tokens, 0)) AS tokens,
        sum(cost_usd) AS cost_usd
    FROM span
    WHERE start_time >= make_timestamp_ns($from_ns) AND start_time < make_timestamp_ns($until_ns)
        AND span_type = 'llm'
        AND model IS NOT NULL
        AND ($tenant::VARCHAR IS NULL OR tenant IN ($tenant, ''))
        AND ($project::VARCHAR IS NULL OR project = $project)
    GROUP BY ALL
),
dearest AS (
    SELECT model, row_number() OVER (ORDER BY sum(cost_usd) DESC NULLS LAST, sum(calls) DESC, model) AS place
    FROM calls
    GROUP BY model
    QUALIFY place <= $rows
)
SELECT
    d.model,
    grouping(d.place) = 0 AND d.model IS NULL AS is_rest,
    c."day",
    sum(c.calls)::BIGINT AS calls,
    least(coalesce(sum(c.tokens), 0), 9223372036854775807)::BIGINT AS tokens,
    sum(c.cost_usd) AS cost_usd
FROM calls AS c
LEFT JOIN dearest AS d USING (model)
GROUP BY GROUPING SETS ((d.place, d.model, c."day"), (c."day"))
ORDER BY d.place, c."day";
