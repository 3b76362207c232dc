-- Return the latest results of a stream that monitors count, from one number to before another, latest first.
SELECT e.number, e.release, e.passed, e.score, e.is_baseline, epoch_us(e.created_at) AS created_us
FROM counted_result AS e
WHERE e.tenant = $tenant
    AND e.project IS NOT DISTINCT FROM $project
    AND e.rule_id = $rule_id
    AND e.service IS NOT DISTINCT FROM $service
    AND e.fingerprint = $fingerprint
    AND e.number >= $first
    AND e.number < $before
ORDER BY e.number DESC
LIMIT $rows;
