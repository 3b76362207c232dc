-- Return the keys of calls without a result, and of results of calls of other traces, in traces that start between two
-- instants. Few traces have one, so most row groups are skipped.
SELECT tenant, call_key, start_time
FROM tool_call
SEMI JOIN wanted_traces USING (tenant, trace_id)
WHERE call_key IS NOT NULL AND start_time >= make_timestamp_ns($from_ns);
