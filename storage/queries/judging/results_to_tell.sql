-- Return the results after a number in the order of storage, except skipped ones.
SELECT
    e.number,
    e.job_id,
    e.tenant,
    e.project,
    e.trace_id,
    e.span_id,
    e.session_id,
    r.rule_id,
    r.rule,
    r.digest,
    r.evaluator,
    e.name,
    e.fingerprint,
    e.outcome,
    e.score,
    e.passed,
    e.threshold,
    e.reason,
    e.error_kind,
    e.judge_model,
    e.release,
    e.round,
    e.occasion,
    epoch_ns(e.created_at) AS created_at_ns
FROM evaluation AS e
INNER JOIN rule_revision AS r ON r.revision = e.revision
WHERE e.number > $after AND e.outcome <> 'skipped'
ORDER BY e.number
LIMIT $rows;
