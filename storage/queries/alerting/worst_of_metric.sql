-- Return traces to inspect of a metric's spans: failed ones, latest first, or the slowest; with $one_a_trace the first
-- failed span of each. Spans of experiments and the playground are included only on request.
SELECT s.trace_id, s.span_id, s.duration_ms, s.error
FROM span AS s
WHERE
    s.received_at >= make_timestamp($from_us::BIGINT)
    AND s.received_at < make_timestamp($until_us::BIGINT)
    AND s.tenant = $tenant
    AND ($experiments OR (s.run_id IS NULL AND s.item_key IS NULL AND contains(s.resource_attributes, '"tracejury.run.id"') IS NOT TRUE AND contains(s.resource_attributes, '"tracejury.playground"') IS NOT TRUE))
    AND ($slowest OR s.status_code = 2)
    AND (NOT $roots OR s.parent_span_id IS NULL)
    AND ($project::VARCHAR IS NULL OR s.project = $project)
    AND ($release::VARCHAR IS NULL OR s.service_version = $release)
    AND ($model::VARCHAR IS NULL OR s.model = $model)
    AND ($tool::VARCHAR IS NULL OR s.tool_name = $tool)
QUALIFY NOT $one_a_trace OR row_number() OVER (PARTITION BY s.trace_id ORDER BY s.seq) = 1
ORDER BY CASE WHEN $slowest THEN s.duration_ms END DESC NULLS LAST, s.seq DESC
LIMIT 10;
