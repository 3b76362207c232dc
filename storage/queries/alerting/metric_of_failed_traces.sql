-- Count the traces whose root span arrived in a window, and those of them with a failed span, which may be a day older.
-- Traces of experiments and the playground count only with $experiments.
SELECT
    count(*) AS "count",
    count(*) FILTER (WHERE r.trace_id IN (
        SELECT s.trace_id
        FROM span AS s
        WHERE
            s.received_at >= make_timestamp($from_us::BIGINT) - INTERVAL 1 DAY
            AND s.received_at < make_timestamp($until_us::BIGINT)
            AND s.tenant = $tenant
            AND s.status_code = 2
    )) AS failed,
    NULL::DOUBLE AS amount
FROM (
    SELECT DISTINCT s.trace_id
    FROM span AS s
    WHERE
        s.received_at >= make_timestamp($from_us::BIGINT)
        AND s.received_at < make_timestamp($until_us::BIGINT)
        AND s.tenant = $tenant
        AND ($experiments OR (s.run_id IS NULL AND s.item_key IS NULL AND contains(s.resource_attributes, '"tracejury.run.id"') IS NOT TRUE AND contains(s.resource_attributes, '"tracejury.playground"') IS NOT TRUE))
        AND s.parent_span_id IS NULL
        AND ($project::VARCHAR IS NULL OR s.project = $project)
        AND ($release::VARCHAR IS NULL OR s.service_version = $release)
) AS r;
