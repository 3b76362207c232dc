-- Sum the counted results about traces of a time, and of the time before, by rule, project and evaluator.
SELECT
    r.rule_id,
    arg_max(r."rule", r.revision) AS "rule",
    e.project,
    e.fingerprint,
    count(*) FILTER (WHERE is_now AND e.passed) AS passed,
    count(*) FILTER (WHERE is_now AND NOT e.passed) AS not_passed,
    count(*) FILTER (WHERE is_now AND e.outcome = 'failed') AS broken,
    count(*) FILTER (WHERE is_now AND e.outcome = 'skipped') AS skipped,
    count(*) FILTER (WHERE NOT is_now AND e.passed) AS passed_before,
    count(*) FILTER (WHERE NOT is_now AND NOT e.passed) AS not_passed_before,
    epoch_us(max(e.created_at)) AS last_us
FROM (
    SELECT *, coalesce(started_at, created_at) >= make_timestamp($from_ns::BIGINT // 1000) AS is_now
    FROM evaluation
    WHERE created_at >= make_timestamp($before_ns::BIGINT // 1000) -- nothing is judged before it started
        AND coalesce(started_at, created_at) >= make_timestamp($before_ns::BIGINT // 1000)
        AND coalesce(started_at, created_at) < make_timestamp($until_ns::BIGINT // 1000)
        AND job_id NOT IN (SELECT job_id FROM superseded)
        AND ($tenant::VARCHAR IS NULL OR tenant IN ($tenant, ''))
        AND ($project::VARCHAR IS NULL OR project = $project)
) AS e
INNER JOIN rule_revision AS r ON r.revision = e.revision
GROUP BY r.rule_id, e.project, e.fingerprint
HAVING count(*) FILTER (WHERE is_now) > 0
ORDER BY "rule", e.project, last_us DESC;
