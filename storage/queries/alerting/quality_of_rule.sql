-- What came of the results of a rule (its id or name) since a day, of a tenant and of none (NULL for all), by day, release or
-- project and by evaluator, the latest first; a project that is NULL lets all pass.
WITH sums AS (
    SELECT * EXCLUDE (last_at)
    FROM evaluation_by_day
    UNION ALL BY NAME
    SELECT *
    FROM evaluation_day
)
SELECT
    CASE $by WHEN 'day' THEN s.day::VARCHAR WHEN 'release' THEN s.release ELSE s.project END AS "group",
    s.fingerprint,
    sum(s.scored)::BIGINT AS scored,
    sum(s.failed)::BIGINT AS failed,
    sum(s.skipped)::BIGINT AS skipped,
    sum(s.passed)::BIGINT AS passed,
    sum(s.not_passed)::BIGINT AS not_passed,
    sum(s.score_sum) / nullif(sum(s.scored), 0) AS mean_score,
    sum(s.cost_usd) AS cost_usd
FROM sums AS s
WHERE s.revision IN (SELECT revision FROM rule_revision WHERE rule_id = $rule OR "rule" = $rule)
    AND s.day >= make_timestamp($from_us::BIGINT)::DATE
    AND ($tenant::VARCHAR IS NULL OR s.tenant IN ($tenant, ''))
    AND ($project::VARCHAR IS NULL OR s.project = $project)
GROUP BY ALL
ORDER BY max(s.day) DESC, 1 DESC, s.fingerprint
LIMIT $limit;
