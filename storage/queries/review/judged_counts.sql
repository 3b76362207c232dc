-- Count the passed and failed results of a rule by evaluator, latest evaluator first. Only results that count are
-- included.
SELECT
    e.fingerprint,
    any_value(e.name) AS name,
    count(*) FILTER (WHERE e.passed) AS passed,
    count(*) FILTER (WHERE NOT e.passed) AS failed
FROM evaluation AS e
WHERE e.tenant = $tenant
    AND ($project::VARCHAR IS NULL OR e.project = $project)
    AND e.revision IN (SELECT revision FROM rule_revision WHERE rule_id = $rule_id)
    AND e.outcome = 'scored'
    AND e.passed IS NOT NULL
    AND e.fingerprint IS NOT NULL
    AND ($from_us::BIGINT IS NULL OR e.created_at >= make_timestamp($from_us::BIGINT))
    AND e.job_id NOT IN (SELECT job_id FROM superseded)
GROUP BY e.fingerprint
ORDER BY max(e.created_at) DESC, e.fingerprint
LIMIT $evaluators;
