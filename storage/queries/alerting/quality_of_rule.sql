-- Sum the results of a rule ($rule: id or name) since a day, latest first. Group them by day, release with its service,
-- or project, and by evaluator. The day is that of the judged span or trace, or that of the judgement. $tenant selects
-- its own rows and shared ones (tenant ''); NULL selects all. A project that is NULL matches all. Stored results are
-- grouped by the requested column alone, since the view `evaluation_by_day` groups by more. Counted annotation scores
-- are included, each question as an evaluator.
WITH results AS (
    SELECT
        * EXCLUDE (passed),
        created_at AS judged_at,
        coalesce(started_at, created_at) AS seen_at,
        (counts AND outcome = 'scored')::INTEGER AS scored,
        (counts AND outcome = 'failed')::INTEGER AS failed,
        (counts AND outcome = 'skipped')::INTEGER AS skipped,
        (counts AND passed)::INTEGER AS passed,
        (counts AND NOT passed)::INTEGER AS not_passed,
        CASE WHEN counts AND outcome = 'scored' THEN score END AS score_sum,
        CASE WHEN cost_usd IS NULL THEN judge_calls END AS unpriced_calls
    FROM (SELECT *, job_id NOT IN (SELECT job_id FROM superseded) AS counts FROM evaluation)
    UNION ALL BY NAME
    SELECT *, day AS judged_at, coalesce(started_day, day) AS seen_at
    FROM evaluation_day
    UNION ALL BY NAME
    SELECT *, day AS judged_at, started_day AS seen_at
    FROM counted_by_day
)
SELECT
    CASE $by
        WHEN 'day' THEN CASE WHEN $judged THEN judged_at ELSE seen_at END::DATE::VARCHAR
        WHEN 'release' THEN release
        WHEN 'project' THEN project
    END AS "group",
    CASE $by WHEN 'release' THEN service END AS service,
    fingerprint,
    sum(scored)::BIGINT AS scored,
    sum(failed)::BIGINT AS failed,
    sum(skipped)::BIGINT AS skipped,
    coalesce(sum(passed), 0)::BIGINT AS passed,
    coalesce(sum(not_passed), 0)::BIGINT AS not_passed,
    sum(score_sum) / nullif(sum(scored), 0) AS mean_score,
    coalesce(sum(cost_usd), 0) AS cost_usd,
    coalesce(sum(unpriced_calls), 0)::BIGINT AS unpriced_calls
FROM results
WHERE revision IN (SELECT revision FROM rule_revision WHERE rule_id = $rule OR "rule" = $rule)
    AND CASE WHEN $judged THEN judged_at ELSE seen_at END >= make_timestamp($from_us::BIGINT)::DATE
    AND ($tenant::VARCHAR IS NULL OR tenant IN ($tenant, ''))
    AND ($project::VARCHAR IS NULL OR project = $project)
GROUP BY ALL
ORDER BY max(CASE WHEN $judged THEN judged_at ELSE seen_at END::DATE) DESC, 1 DESC, service, fingerprint
LIMIT $limit;
