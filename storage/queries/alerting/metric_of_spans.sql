-- Count the spans of a window and the failed ones, and return a percentile of their durations. $roots selects root
-- spans only. Spans of experiments and the playground count only with $experiments. A filter that is NULL matches all.
SELECT
    count(*) AS "count",
    count(*) FILTER (WHERE s.status_code = 2) AS failed,
    approx_quantile(s.duration_ms, $percentile::FLOAT) AS amount
FROM span AS s
WHERE
    s.received_at >= make_timestamp($from_us::BIGINT)
    AND s.received_at < make_timestamp($until_us::BIGINT)
    AND s.tenant = $tenant
    AND ($experiments OR (s.run_id IS NULL AND s.item_key IS NULL AND contains(s.resource_attributes, '"tracejury.run.id"') IS NOT TRUE AND contains(s.resource_attributes, '"tracejury.playground"') IS NOT TRUE))
    AND (NOT $roots OR s.parent_span_id IS NULL)
    AND ($project::VARCHAR IS NULL OR s.project = $project)
    AND ($release::VARCHAR IS NULL OR s.service_version = $release)
    AND ($model::VARCHAR IS NULL OR s.model = $model)
    AND ($tool::VARCHAR IS NULL OR s.tool_name = $tool);
