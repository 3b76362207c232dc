-- Delete the tool calls of traces that leave; the bounds let row groups be skipped.
DELETE FROM tool_call
USING leaving_traces AS l
WHERE tool_call.start_time BETWEEN make_timestamp_ns($from_ns) AND make_timestamp_ns($to_ns)
    AND tool_call.tenant = l.tenant AND tool_call.trace_id = l.trace_id;
