-- What names a trace, if it is there.
SELECT DISTINCT tenant, trace_id, trace_key
FROM trace_part
WHERE tenant = $tenant AND trace_id = $trace_id;
