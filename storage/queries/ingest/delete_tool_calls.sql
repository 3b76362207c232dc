-- Delete the tool calls of traces that are aggregated again. The bound lets row groups be skipped.
DELETE FROM tool_call
USING wanted_traces AS w
WHERE tool_call.start_time >= make_timestamp_ns($from_ns)
    AND tool_call.tenant = w.tenant AND tool_call.trace_id = w.trace_id;
