-- Return when the first and the last span start in the stored traces of the incoming keys.
SELECT epoch_ns(min(p.start_time)), epoch_ns(max(p.last_start_time))
FROM trace_part AS p
SEMI JOIN incoming_keys AS k USING (tenant, trace_id);
