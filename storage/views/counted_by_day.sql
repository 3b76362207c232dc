-- Votes and external scores that monitors count, summed by day like the results of evaluators. Each question is an
-- evaluator of its own, and a pass without a score counts as 1.
CREATE OR REPLACE VIEW counted_by_day AS
SELECT
    created_at::DATE AS day,
    coalesce(started_at, created_at)::DATE AS started_day,
    tenant,
    project,
    revision,
    "name",
    'scores:' || "name" AS fingerprint,
    release,
    service,
    count(*) AS scored,
    0 AS failed,
    0 AS skipped,
    count(*) FILTER (WHERE passed) AS passed,
    count(*) FILTER (WHERE NOT passed) AS not_passed,
    sum(CASE WHEN score BETWEEN 0 AND 1 THEN score ELSE passed::INTEGER END) AS score_sum,
    0.0 AS cost_usd,
    count(*) AS counted,
    max(created_at) AS last_at
FROM counted_score
GROUP BY ALL;
