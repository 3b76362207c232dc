-- Delete the state of settling of traces that leave.
DELETE FROM trace_open
USING leaving_traces AS l
WHERE trace_open.tenant = l.tenant AND trace_open.trace_id = l.trace_id;
