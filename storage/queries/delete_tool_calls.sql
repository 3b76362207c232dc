-- Forget what was read of the traces that are read again; the bound lets row groups be skipped.
DELETE FROM tool_call
USING incoming_traces AS i
WHERE tool_call.start_time >= make_timestamp_ns($from_ns)
    AND tool_call.tenant = i.tenant AND tool_call.trace_id = i.trace_id;
