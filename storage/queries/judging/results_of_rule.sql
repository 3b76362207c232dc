-- Return the latest results of a rule that are not superseded, last first.
SELECT
    e.revision,
    e.trace_id,
    e.span_id,
    e.session_id,
    e.outcome,
    e.passed,
    e.score,
    e.reason,
    e.error_kind,
    e.cost_usd,
    e.latency_ms,
    e.release,
    e.occasion,
    epoch_ns(e.created_at) AS created_at_ns
FROM evaluation AS e
WHERE e.revision IN (SELECT revision FROM rule_revision WHERE rule_id = $rule_id)
    AND ($tenant::VARCHAR IS NULL OR e.tenant IN ($tenant, ''))
    AND e.job_id NOT IN (SELECT job_id FROM superseded)
ORDER BY e.number DESC
LIMIT $rows;
