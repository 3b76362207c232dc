-- Keep no trace any longer for this reason.
DELETE FROM trace_pin
WHERE tenant = $tenant AND why = $why;
