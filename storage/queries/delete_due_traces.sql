-- Forget that traces are due: they are added up.
DELETE FROM trace_due
USING finished_traces AS f
WHERE trace_due.tenant = f.tenant AND trace_due.trace_id = f.trace_id;
