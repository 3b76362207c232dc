-- Return the row ids of the leaving traces' log records from before a commit.
SELECT r.rowid AS place
FROM log_record AS r
SEMI JOIN leaving_traces AS l ON l.tenant = r.tenant AND l.trace_id = r.trace_id
WHERE r.batch < $first_batch;
