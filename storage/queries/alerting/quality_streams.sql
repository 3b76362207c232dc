-- Sum the results of each rule and project since a day, by evaluator and day. The day is that of the judged span or
-- trace, or that of the judgement on request. Counted annotation scores are included, each question as an evaluator.
WITH sums AS (
    SELECT *
    FROM evaluation_by_day
    UNION ALL BY NAME
    SELECT * REPLACE (coalesce(started_day, day) AS started_day), day::TIMESTAMP AS last_at
    FROM evaluation_day
    UNION ALL BY NAME
    SELECT *
    FROM counted_by_day
),
names AS (
    SELECT rule_id, arg_max("rule", revision) AS "rule"
    FROM rule_revision
    GROUP BY rule_id
)
SELECT
    s.project,
    r.rule_id,
    n."rule",
    (CASE WHEN $judged THEN s.day ELSE s.started_day END - DATE '1970-01-01')::BIGINT * 86_400_000_000 AS day_us,
    s.fingerprint,
    sum(s.scored)::BIGINT AS scored,
    sum(s.failed)::BIGINT AS failed,
    sum(s.skipped)::BIGINT AS skipped,
    sum(s.passed)::BIGINT AS passed,
    sum(s.not_passed)::BIGINT AS not_passed,
    sum(s.score_sum) AS score_sum,
    sum(s.cost_usd) AS cost_usd,
    coalesce(sum(s.unpriced_calls), 0)::BIGINT AS unpriced_calls,
    epoch_us(max(s.last_at)) AS last_us
FROM sums AS s
INNER JOIN rule_revision AS r ON r.revision = s.revision
INNER JOIN names AS n ON n.rule_id = r.rule_id
WHERE s.tenant = $tenant AND s.day >= make_timestamp($from_us::BIGINT)::DATE
    AND ($judged OR s.started_day >= make_timestamp($from_us::BIGINT)::DATE)
GROUP BY ALL
ORDER BY s.project, n."rule", rule_id, day_us, last_us;
