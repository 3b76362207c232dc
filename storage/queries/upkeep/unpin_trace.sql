-- Keep a trace no longer for this reason.
DELETE FROM trace_pin
WHERE tenant = $tenant AND trace_id = $trace_id AND why = $why;
