-- Return the first $logs log records of one span, by time and then in order of arrival; found as in `logs_of_trace`.
SELECT *
FROM log_record
WHERE tenant = $tenant AND trace_id = $trace_id AND span_id = $span_id
ORDER BY logged_at, rowid
LIMIT $logs;
