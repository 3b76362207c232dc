-- Return the mean cost or token count of traces whose root span arrived in a window, of those that have one. Traces of
-- experiments and the playground count only on request.
SELECT
    count(t.amount) AS "count",
    0 AS failed,
    avg(t.amount) AS amount
FROM (
    SELECT CASE
        WHEN $of_cost THEN m.cost_usd
        WHEN m.input_tokens IS NOT NULL OR m.output_tokens IS NOT NULL THEN coalesce(m.input_tokens, 0)::DOUBLE + coalesce(m.output_tokens, 0)
    END AS amount
    FROM trace_reading AS m
    WHERE
        m.tenant = $tenant
        AND m.start_time >= make_timestamp($from_us::BIGINT)::TIMESTAMP_NS - INTERVAL 1 DAY
        AND m.start_time < make_timestamp($until_us::BIGINT)::TIMESTAMP_NS + INTERVAL 1 DAY
        AND m.trace_id IN (
            SELECT s.trace_id
            FROM span AS s
            WHERE
                s.received_at >= make_timestamp($from_us::BIGINT)
                AND s.received_at < make_timestamp($until_us::BIGINT)
                AND s.tenant = $tenant
                AND ($experiments OR (s.run_id IS NULL AND s.item_key IS NULL AND contains(s.resource_attributes, '"tracejury.run.id"') IS NOT TRUE AND contains(s.resource_attributes, '"tracejury.playground"') IS NOT TRUE))
                AND s.parent_span_id IS NULL
                AND ($project::VARCHAR IS NULL OR s.project = $project)
                AND ($release::VARCHAR IS NULL OR s.service_version = $release)
        )
) AS t;
