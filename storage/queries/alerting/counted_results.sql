-- Return the results between two numbers that monitors count, and the external scores that rules let count, in the
-- order of storage.
SELECT
    e.number,
    e.job_id,
    e.round,
    e.tenant,
    e.project,
    e.rule_id,
    e.service,
    e.rule,
    e.revision,
    e.fingerprint,
    e.evaluator,
    e.release,
    e.passed,
    e.score,
    e.is_baseline,
    epoch_us(e.created_at) AS created_us
FROM counted_result AS e
WHERE e.number > $after AND e.number <= $until
ORDER BY e.number
LIMIT $rows;
