-- Remove the pins of this reason from all traces.
DELETE FROM trace_pin
WHERE tenant = $tenant AND why = $why;
