-- When the first and the last span of a trace start.
SELECT epoch_ns(min(start_time)), epoch_ns(max(last_start_time))
FROM trace_part
WHERE tenant = $tenant AND trace_id = $trace_id;
