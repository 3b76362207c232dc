-- Return failed evaluations that still count, or those skipped for a given reason, of a tenant (NULL: all). Rule and
-- error are optional filters.
SELECT e.job_id
FROM evaluation AS e
INNER JOIN rule_revision AS r ON r.revision = e.revision
WHERE (e.outcome = 'failed' OR (e.outcome = 'skipped' AND e.error_kind IN ('over_budget', 'rule_disabled') AND $error_kind IS NOT NULL))
    AND ($tenant::VARCHAR IS NULL OR e.tenant = $tenant)
    AND ($rule::VARCHAR IS NULL OR r.rule = $rule OR r.rule_id = $rule)
    AND ($error_kind::VARCHAR IS NULL OR e.error_kind = $error_kind)
    AND e.job_id NOT IN (SELECT job_id FROM superseded)
ORDER BY e.job_id
LIMIT $jobs;
