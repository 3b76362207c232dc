-- Return what the conditions of a rule read of the spans of one trace, by start: of a tenant's trace; without a
-- tenant, of the trace of no tenant, or of the first with this id.
SELECT $columns
FROM $source
WHERE trace_id = $trace_id
    AND tenant = coalesce($tenant::VARCHAR, (SELECT min(tenant) FROM spans WHERE trace_id = $trace_id))
ORDER BY start_time, span_id;
