-- Return the incoming log records that are already stored, among those between two instants.
SELECT DISTINCT l.tenant, l.trace_id, l.record_id
FROM log_record AS l
SEMI JOIN incoming_logs AS i USING (tenant, trace_id, record_id)
WHERE l.logged_at BETWEEN make_timestamp_ns($from_ns) AND make_timestamp_ns($to_ns);
