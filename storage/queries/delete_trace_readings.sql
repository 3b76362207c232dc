-- Forget what was read of the traces that are read again; the bound lets row groups be skipped.
DELETE FROM trace_reading
USING incoming_traces AS i
WHERE trace_reading.start_time >= make_timestamp_ns($from_ns)
    AND trace_reading.tenant = i.tenant AND trace_reading.trace_id = i.trace_id;
