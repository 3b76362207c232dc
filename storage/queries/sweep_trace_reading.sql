-- Delete the readings of traces that leave; the bounds let row groups be skipped.
DELETE FROM trace_reading
USING leaving_traces AS l
WHERE trace_reading.start_time BETWEEN make_timestamp_ns($from_ns) AND make_timestamp_ns($to_ns)
    AND trace_reading.tenant = l.tenant AND trace_reading.trace_id = l.trace_id;
