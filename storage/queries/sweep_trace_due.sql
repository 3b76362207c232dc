-- Delete the wish to be added up of traces that leave.
DELETE FROM trace_due
USING leaving_traces AS l
WHERE trace_due.tenant = l.tenant AND trace_due.trace_id = l.trace_id;
