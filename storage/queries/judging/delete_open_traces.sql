-- Delete open traces that have settled, whose parts' last spans lie between two numbers.
DELETE FROM trace_open
USING settled_traces AS s
WHERE trace_open.tenant = s.tenant AND trace_open.trace_id = s.trace_id
    AND trace_open.last_seq BETWEEN $first AND $last;
