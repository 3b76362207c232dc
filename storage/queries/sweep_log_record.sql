-- Delete the log records of traces that leave.
DELETE FROM log_record
USING leaving_traces AS l
WHERE log_record.tenant = l.tenant AND log_record.trace_id = l.trace_id;
