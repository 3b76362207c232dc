-- Return the traces of the selected sessions, and whether they have settled.
SELECT
    w.trace,
    r.tenant,
    r.trace_id,
    r.trace_key,
    r.session_id,
    epoch_ns(r.start_time) AS start_ns,
    (r.tenant, r.trace_id) IN (SELECT (tenant, trace_id) FROM trace_open) AS is_open
FROM trace_reading AS r
INNER JOIN wanted_sessions AS w ON w.tenant = r.tenant AND w.session_id = r.session_id;
