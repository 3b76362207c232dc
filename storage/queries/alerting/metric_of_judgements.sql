-- Count the evaluations of a window, and those that failed (no score).
SELECT
    count(*) AS "count",
    count(*) FILTER (WHERE e.outcome = 'failed') AS failed,
    NULL::DOUBLE AS amount
FROM evaluations AS e
WHERE
    e.created_at >= make_timestamp($from_us::BIGINT)
    AND e.created_at < make_timestamp($until_us::BIGINT)
    AND e.tenant = $tenant
    AND e.origin = 'rule'
    AND e.outcome IN ('scored', 'failed')
    AND ($project::VARCHAR IS NULL OR e.project = $project)
    AND ($release::VARCHAR IS NULL OR e.release = $release)
    AND ($rule::VARCHAR IS NULL OR e.rule_id = $rule OR e.rule = $rule);
