-- What came of the results of each rule about each project since an instant, by day and evaluator; those that another
-- result of the same target replaced cost money and count no more.
WITH each_one AS (
    SELECT
        e.project,
        r.rule_id,
        e.created_at::DATE AS day,
        e.fingerprint,
        count(*) FILTER (WHERE s.job_id IS NULL AND e.outcome = 'scored') AS scored,
        count(*) FILTER (WHERE s.job_id IS NULL AND e.outcome = 'failed') AS failed,
        count(*) FILTER (WHERE s.job_id IS NULL AND e.outcome = 'skipped') AS skipped,
        count(*) FILTER (WHERE s.job_id IS NULL AND e.passed) AS passed,
        count(*) FILTER (WHERE s.job_id IS NULL AND NOT e.passed) AS not_passed,
        coalesce(sum(e.score) FILTER (WHERE s.job_id IS NULL AND e.outcome = 'scored'), 0) AS score_sum,
        coalesce(sum(e.cost_usd), 0) AS cost_usd,
        max(e.created_at) AS last_at
    FROM evaluation AS e
    INNER JOIN rule_revision AS r ON r.revision = e.revision
    LEFT JOIN (SELECT DISTINCT job_id FROM superseded) AS s ON s.job_id = e.job_id
    WHERE e.tenant = $tenant
        AND e.created_at >= make_timestamp($from_us::BIGINT)
        AND ($project::VARCHAR IS NULL OR e.project = $project)
        AND ($rule_id::VARCHAR IS NULL OR r.rule_id = $rule_id)
    GROUP BY ALL
    UNION ALL
    SELECT
        d.project,
        r.rule_id,
        d.day,
        d.fingerprint,
        d.scored,
        d.failed,
        d.skipped,
        d.passed,
        d.not_passed,
        d.score_sum,
        d.cost_usd,
        d.day::TIMESTAMP AS last_at
    FROM evaluation_day AS d
    INNER JOIN rule_revision AS r ON r.revision = d.revision
    WHERE d.tenant = $tenant
        AND d.day >= make_timestamp($from_us::BIGINT)::DATE
        AND ($project::VARCHAR IS NULL OR d.project = $project)
        AND ($rule_id::VARCHAR IS NULL OR r.rule_id = $rule_id)
),
names AS (
    SELECT rule_id, arg_max("rule", revision) AS "rule"
    FROM rule_revision
    GROUP BY rule_id
)
SELECT
    o.project,
    o.rule_id,
    n."rule",
    (o.day - DATE '1970-01-01')::BIGINT * 86_400_000_000 AS day_us,
    o.fingerprint,
    sum(o.scored)::BIGINT AS scored,
    sum(o.failed)::BIGINT AS failed,
    sum(o.skipped)::BIGINT AS skipped,
    sum(o.passed)::BIGINT AS passed,
    sum(o.not_passed)::BIGINT AS not_passed,
    sum(o.score_sum) AS score_sum,
    sum(o.cost_usd) AS cost_usd,
    epoch_us(max(o.last_at)) AS last_us
FROM each_one AS o
INNER JOIN names AS n ON n.rule_id = o.rule_id
GROUP BY ALL
ORDER BY o.project, n."rule", o.rule_id, day_us, last_us;
