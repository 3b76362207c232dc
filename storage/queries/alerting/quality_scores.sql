-- The latest scores from 0 to 1 of each of some releases by one evaluator, for tests that need them singly.
SELECT e.release, e.score
FROM evaluation AS e
WHERE e.tenant = $tenant
    AND e.project IS NOT DISTINCT FROM $project
    AND e.revision IN (SELECT revision FROM rule_revision WHERE rule_id = $rule_id)
    AND e.created_at >= make_timestamp($from_us::BIGINT)
    AND e.fingerprint = $fingerprint
    AND list_contains($releases::VARCHAR[], e.release)
    AND e.outcome = 'scored'
    AND e.score BETWEEN 0 AND 1
    AND e.job_id NOT IN (SELECT job_id FROM superseded)
QUALIFY row_number() OVER (PARTITION BY e.release ORDER BY e.created_at DESC, e.job_id DESC) <= $each
ORDER BY e.created_at, e.job_id;
