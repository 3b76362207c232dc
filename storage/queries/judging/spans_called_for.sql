-- The spans of a trace, and NULL for the trace, about which a result says what a rule goes by. Results about its
-- session are left out.
SELECT DISTINCT e.span_id
FROM (
$results
) AS e
WHERE e.trace_id = $trace_id AND e.session_id IS NULL
    AND e.tenant = coalesce($tenant::VARCHAR, (SELECT min(tenant) FROM spans WHERE trace_id = $trace_id));
