-- Return jobs, newest first, of a tenant, plus shared ones (tenant ''). NULL returns those of all tenants. State, rule
-- (name or id) and trace filter if they are not NULL.
SELECT
    job_id,
    "state",
    tenant,
    project,
    rule,
    rule_id,
    rule_revision,
    evaluator,
    trace_id,
    span_id,
    session_id,
    release,
    round,
    attempts,
    epoch_ns(not_before) AS not_before_ns,
    error_kind,
    error,
    epoch_ns(created_at) AS created_ns,
    epoch_ns(finished_at) AS finished_ns
FROM jobs
WHERE ($tenant::VARCHAR IS NULL OR tenant IN ($tenant, ''))
    AND ($state::VARCHAR IS NULL OR "state" = $state)
    AND ($rule::VARCHAR IS NULL OR rule = $rule OR rule_id = $rule)
    AND ($trace_id::VARCHAR IS NULL OR trace_id = $trace_id)
ORDER BY job_id DESC
LIMIT $jobs OFFSET $skipped;
