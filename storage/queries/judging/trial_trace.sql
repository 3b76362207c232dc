-- What the conditions of a rule read of the spans of one trace, by their start: of a tenant's trace; without one, of
-- the trace of no tenant, or of the first that has one with this id.
SELECT $columns
FROM $source
WHERE trace_id = $trace_id
    AND tenant = coalesce($tenant::VARCHAR, (SELECT min(tenant) FROM spans WHERE trace_id = $trace_id))
ORDER BY start_time, span_id;
