-- The results after one and up to another that monitors count, and the scores by others that rules let count, in the
-- order in which they were stored.
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
