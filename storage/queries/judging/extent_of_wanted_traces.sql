-- Return the times of the selected traces' spans and their first and last commit; NULL if there are none.
SELECT
    epoch_ns(min(p.start_time)),
    epoch_ns(max(p.last_start_time)),
    min(p.batch),
    max(p.batch)
FROM trace_part AS p
SEMI JOIN wanted_traces AS w ON w.trace_key = p.trace_key AND w.tenant = p.tenant AND w.trace_id = p.trace_id;
