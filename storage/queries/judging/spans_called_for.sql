-- Return the spans of a trace that a result calls for by a rule's "after" condition, and NULL for the trace itself.
-- Results of its session are omitted.
SELECT DISTINCT e.span_id
FROM (
$results
) AS e
WHERE e.trace_id = $trace_id AND e.session_id IS NULL
    AND e.tenant = coalesce($tenant::VARCHAR, (SELECT min(tenant) FROM spans WHERE trace_id = $trace_id));
