-- Return the commits that added spans to the selected traces.
SELECT DISTINCT p.batch
FROM trace_part AS p
SEMI JOIN wanted_traces AS w ON w.trace_key = p.trace_key AND w.tenant = p.tenant AND w.trace_id = p.trace_id
ORDER BY p.batch;
