-- Count the failed evaluations that still count, by rule and kind of error, most frequent first, with the latest
-- error; of a tenant (NULL: all).
SELECT
    r.rule_id,
    arg_max(r.rule, e.job_id) AS rule,
    e.error_kind,
    count(*) AS jobs,
    epoch_us(max(e.created_at)) * 1000 AS last_ns,
    left(arg_max(e.reason, e.job_id), 500) AS error
FROM evaluation AS e
INNER JOIN rule_revision AS r ON r.revision = e.revision
WHERE e.outcome = 'failed'
    AND ($tenant::VARCHAR IS NULL OR e.tenant = $tenant)
    AND e.job_id NOT IN (SELECT job_id FROM superseded)
GROUP BY r.rule_id, e.error_kind
ORDER BY jobs DESC, last_ns DESC, r.rule_id, e.error_kind
LIMIT $kinds;
