-- The results after one that monitors count, in the order in which they were stored.
SELECT
    e.number,
    e.job_id,
    e.round,
    e.tenant,
    e.project,
    r.rule_id,
    r.rule,
    e.revision,
    e.fingerprint,
    e.name AS evaluator,
    e.release,
    e.passed,
    e.score,
    epoch_us(e.created_at) AS created_us
FROM evaluation AS e
INNER JOIN rule_revision AS r ON r.revision = e.revision
WHERE e.number > $after AND e.counted
ORDER BY e.number
LIMIT $rows;
