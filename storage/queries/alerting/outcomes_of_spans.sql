-- Return whether each span after a number failed, in the order of commits. Of more than $most spans, a hash of the ids
-- selects a sample that does not depend on the outcome. Spans of experiments and the playground count only with
-- $experiments. A filter that is NULL matches all.
SELECT o.number, o.passed, o.release, o.last
FROM (
    SELECT
        s.seq AS number,
        s.status_code IS DISTINCT FROM 2 AS passed,
        s.service_version AS release,
        max(s.seq) OVER () AS last,
        row_number() OVER (ORDER BY hash(s.trace_id, s.span_id)) AS place
    FROM span AS s
    WHERE
        s.seq > $after
        AND s.received_at >= make_timestamp($from_us::BIGINT)
        AND s.received_at < make_timestamp($until_us::BIGINT)
        AND s.tenant = $tenant
        AND ($experiments OR (s.run_id IS NULL AND s.item_key IS NULL AND contains(s.resource_attributes, '"tracejury.run.id"') IS NOT TRUE AND contains(s.resource_attributes, '"tracejury.playground"') IS NOT TRUE))
        AND (NOT $roots OR s.parent_span_id IS NULL)
        AND ($project::VARCHAR IS NULL OR s.project = $project)
        AND ($release::VARCHAR IS NULL OR s.service_version = $release)
        AND ($model::VARCHAR IS NULL OR s.model = $model)
        AND ($tool::VARCHAR IS NULL OR s.tool_name = $tool)
) AS o
WHERE o.place <= $most
ORDER BY o.number;
