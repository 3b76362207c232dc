-- Return the worst results of a part of a stream, latest first among equal ones, and how many of that part did not
-- pass.
SELECT
    e.trace_id,
    e.span_id,
    e.session_id,
    e.score,
    e.reason,
    e.passed,
    count(*) FILTER (WHERE NOT e.passed) OVER () AS not_passed
FROM counted_result AS e
WHERE e.number > $after
    AND e.number <= $until
    AND e.tenant = $tenant
    AND e.project IS NOT DISTINCT FROM $project
    AND e.rule_id = $rule_id
    AND e.service IS NOT DISTINCT FROM $service
    AND e.fingerprint = $fingerprint
    AND CASE WHEN $measure = 'passed' THEN e.passed IS NOT NULL ELSE e.score BETWEEN 0 AND 1 END
    AND CASE WHEN $releases::VARCHAR[] IS NULL THEN NOT e.is_baseline ELSE list_contains($releases::VARCHAR[], e.release) END
ORDER BY $measure = 'passed' AND e.passed, CASE WHEN $lower_is_better THEN -e.score ELSE e.score END, e.number DESC
LIMIT $rows;
