-- Pin a trace, once for each reason.
INSERT INTO trace_pin
SELECT $tenant, $trace_id, $why, make_timestamp($now_us)
WHERE NOT EXISTS (
    SELECT 1 FROM trace_pin WHERE tenant = $tenant AND trace_id = $trace_id AND why = $why
);
