-- Return the reasons for which a trace is pinned.
SELECT why
FROM trace_pin
WHERE tenant = $tenant AND trace_id = $trace_id
ORDER BY why;
