-- Return whether each evaluation after a number gave a score, in the order of storage. Of more than the maximum, a
-- hash selects some.
SELECT o.number, o.passed, o.release, o.last
FROM (
    SELECT
        e.number,
        e.outcome = 'scored' AS passed,
        e.release,
        max(e.number) OVER () AS last,
        row_number() OVER (ORDER BY hash(e.job_id, e.trace_id)) AS place
    FROM evaluations AS e
    WHERE
        e.number > $after
        AND e.created_at >= make_timestamp($from_us::BIGINT)
        AND e.created_at < make_timestamp($until_us::BIGINT)
        AND e.tenant = $tenant
        AND e.origin = 'rule'
        AND e.outcome IN ('scored', 'failed')
        AND ($project::VARCHAR IS NULL OR e.project = $project)
        AND ($release::VARCHAR IS NULL OR e.release = $release)
        AND ($rule::VARCHAR IS NULL OR e.rule_id = $rule OR e.rule = $rule)
) AS o
WHERE o.place <= $most
ORDER BY o.number;
