-- Return the evaluations of some traces and their spans, whose numbers lie between two, in the order of their requests.
-- With a session id, return those of that session, whose traces these are.
SELECT
    e.trace_id,
    e.job_id,
    r.rule_id,
    r.rule,
    e.revision,
    r.digest,
    r.evaluator,
    e.span_id,
    e.name,
    e.fingerprint,
    e.outcome,
    e.score,
    e.passed,
    e.threshold,
    e.reason,
    e.error_kind,
    e.metadata,
    e.judge_model,
    e.judge_calls,
    e.input_tokens,
    e.output_tokens,
    e.cost_usd,
    e.latency_ms,
    e.attempts,
    e.release,
    e.round,
    epoch_ns(e.created_at) AS created_at_ns,
    s.job_id IS NOT NULL AS superseded
FROM evaluation AS e
JOIN rule_revision AS r USING (revision)
LEFT JOIN (SELECT DISTINCT job_id FROM superseded) AS s USING (job_id)
WHERE e.tenant = $tenant
    AND e.trace_id IN (SELECT unnest($trace_ids::VARCHAR[]))
    AND e.seq BETWEEN $first_seq AND $last_seq
    AND e.session_id IS NOT DISTINCT FROM $session_id
ORDER BY e.job_id
LIMIT $rows;
