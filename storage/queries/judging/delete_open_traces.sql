-- Forget traces that have settled, of which the last spans of each part lie between two numbers.
DELETE FROM trace_open
USING settled_traces AS s
WHERE trace_open.tenant = s.tenant AND trace_open.trace_id = s.trace_id
    AND trace_open.last_seq BETWEEN $first AND $last;
