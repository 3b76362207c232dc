-- Return whether each trace whose root span came after a number has a failed span, in the order of commits. Of more
-- than $most traces, a hash of the ids selects a sample that does not depend on the outcome. Traces of experiments and
-- the playground count only with $experiments. A filter that is NULL matches all.
SELECT
    o.number,
    o.trace_id NOT IN (
        SELECT s.trace_id
        FROM span AS s
        WHERE
            s.received_at >= make_timestamp($from_us::BIGINT) - INTERVAL 1 DAY
            AND s.received_at < make_timestamp($until_us::BIGINT)
            AND s.tenant = $tenant
            AND s.status_code = 2
    ) AS passed,
    o.release,
    o.last
FROM (
    SELECT
        s.seq AS number,
        s.trace_id,
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
        AND s.parent_span_id IS NULL
        AND ($project::VARCHAR IS NULL OR s.project = $project)
        AND ($release::VARCHAR IS NULL OR s.service_version = $release)
) AS o
WHERE o.place <= $most
ORDER BY o.number;
