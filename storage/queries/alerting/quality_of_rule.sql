-- What came of the results of a rule (its id or name) since a day, of a tenant and of none (NULL for all), by day, release with
-- its service, or project, and by evaluator; a day is that of what was judged, or of the judgement where that is asked for; the latest first; a project that is NULL lets all pass. Results that are stored are added up by
-- what is asked for alone: the view `evaluation_by_day` groups by more. Scores by people and applications that count are among
-- them, each question like an evaluator.
WITH of_rule AS (
    SELECT revision
    FROM rule_revision
    WHERE rule_id = $rule OR "rule" = $rule
), of_rows AS (
    SELECT
        CASE WHEN $judged THEN created_at ELSE coalesce(started_at, created_at) END::DATE AS day,
        CASE $by WHEN 'release' THEN release WHEN 'project' THEN project END AS told,
        CASE $by WHEN 'release' THEN service END AS service,
        fingerprint,
        count(*) FILTER (WHERE counts AND outcome = 'scored') AS scored,
        count(*) FILTER (WHERE counts AND outcome = 'failed') AS failed,
        count(*) FILTER (WHERE counts AND outcome = 'skipped') AS skipped,
        count(*) FILTER (WHERE counts AND passed) AS passed,
        count(*) FILTER (WHERE counts AND NOT passed) AS not_passed,
        coalesce(sum(score) FILTER (WHERE counts AND outcome = 'scored'), 0) AS score_sum,
        coalesce(sum(cost_usd), 0) AS cost_usd
    FROM (SELECT *, job_id NOT IN (SELECT job_id FROM superseded) AS counts FROM evaluation)
    WHERE revision IN (SELECT revision FROM of_rule)
        AND CASE WHEN $judged THEN created_at ELSE coalesce(started_at, created_at) END
            >= make_timestamp($from_us::BIGINT)::DATE
        AND ($tenant::VARCHAR IS NULL OR tenant IN ($tenant, ''))
        AND ($project::VARCHAR IS NULL OR project = $project)
    GROUP BY ALL
), sums AS (
    SELECT *
    FROM of_rows
    UNION ALL BY NAME
    SELECT
        CASE WHEN $judged THEN day ELSE coalesce(started_day, day) END AS day,
        CASE $by WHEN 'release' THEN release WHEN 'project' THEN project END AS told,
        CASE $by WHEN 'release' THEN service END AS service,
        fingerprint,
        scored,
        failed,
        skipped,
        passed,
        not_passed,
        score_sum,
        cost_usd
    FROM evaluation_day
    WHERE revision IN (SELECT revision FROM of_rule)
        AND CASE WHEN $judged THEN day ELSE coalesce(started_day, day) END >= make_timestamp($from_us::BIGINT)::DATE
        AND ($tenant::VARCHAR IS NULL OR tenant IN ($tenant, ''))
        AND ($project::VARCHAR IS NULL OR project = $project)
    UNION ALL BY NAME
    SELECT
        CASE WHEN $judged THEN day ELSE started_day END AS day,
        CASE $by WHEN 'release' THEN release WHEN 'project' THEN project END AS told,
        CASE $by WHEN 'release' THEN service END AS service,
        fingerprint,
        scored,
        failed,
        skipped,
        passed,
        not_passed,
        score_sum,
        cost_usd
    FROM counted_by_day
    WHERE revision IN (SELECT revision FROM of_rule)
        AND CASE WHEN $judged THEN day ELSE started_day END >= make_timestamp($from_us::BIGINT)::DATE
        AND ($tenant::VARCHAR IS NULL OR tenant IN ($tenant, ''))
        AND ($project::VARCHAR IS NULL OR project = $project)
)
SELECT
    CASE $by WHEN 'day' THEN day::VARCHAR ELSE told END AS "group",
    service,
    fingerprint,
    sum(scored)::BIGINT AS scored,
    sum(failed)::BIGINT AS failed,
    sum(skipped)::BIGINT AS skipped,
    sum(passed)::BIGINT AS passed,
    sum(not_passed)::BIGINT AS not_passed,
    sum(score_sum) / nullif(sum(scored), 0) AS mean_score,
    sum(cost_usd) AS cost_usd
FROM sums
GROUP BY ALL
ORDER BY max(day) DESC, 1 DESC, service, fingerprint
LIMIT $limit;
