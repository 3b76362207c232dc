-- Return the external scores of a trace and its spans, in the order of arrival.
SELECT
    span_id,
    project,
    name,
    outcome,
    score,
    passed,
    label,
    reason,
    error_kind,
    metadata,
    epoch_ns(created_at) AS created_at_ns
FROM evaluations
WHERE origin = 'external' AND tenant = $tenant AND trace_id = $trace_id
ORDER BY created_at, name, span_id
LIMIT $rows;
