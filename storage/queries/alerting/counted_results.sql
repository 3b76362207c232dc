-- The results after one that monitors count, and the scores by others that rules let count, in the order in which they were stored.
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
UNION ALL BY NAME
SELECT
    c.number,
    c.number AS job_id,
    0 AS round,
    c.tenant,
    c.project,
    r.rule_id,
    r.rule,
    c.revision,
    'scores:' || c.name AS fingerprint,
    c.name AS evaluator,
    c.release,
    c.passed,
    c.score,
    epoch_us(c.created_at) AS created_us
FROM counted_score AS c
INNER JOIN rule_revision AS r ON r.revision = c.revision
WHERE c.number > $after
ORDER BY number
LIMIT $rows;
