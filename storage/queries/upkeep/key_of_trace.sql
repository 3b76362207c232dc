-- Return the key of a trace, if it is stored.
SELECT DISTINCT tenant, trace_id, trace_key
FROM trace_part
WHERE tenant = $tenant AND trace_id = $trace_id;
