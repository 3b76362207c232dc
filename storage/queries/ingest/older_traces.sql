-- Return some traces that were aggregated from spans read by another edition of the conventions.
SELECT tenant, trace_id
FROM trace_reading
WHERE edition IS DISTINCT FROM $edition
LIMIT $traces;
