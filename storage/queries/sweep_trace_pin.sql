-- Delete the pins of traces that leave.
DELETE FROM trace_pin
USING leaving_traces AS l
WHERE trace_pin.tenant = l.tenant AND trace_pin.trace_id = l.trace_id;
