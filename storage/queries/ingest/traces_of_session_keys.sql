-- Return the traces of the selected sessions by time.
SELECT r.tenant, r.session_id, r.trace_id
FROM trace_reading AS r
SEMI JOIN wanted_sessions USING (tenant, session_id)
ORDER BY r.start_time, r.trace_id;
