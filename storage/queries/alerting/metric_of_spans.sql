-- How many spans of a window there are, how many failed, and a percentile of their durations; of root spans alone, or of all; without those of experiments and the playground, unless these are wanted.
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
