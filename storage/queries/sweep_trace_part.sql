-- Delete the parts of traces that leave, which came with the commits between two numbers.
DELETE FROM trace_part
USING leaving_traces AS l
WHERE trace_part.batch BETWEEN $first_batch AND $last_batch
    AND trace_part.trace_key = l.trace_key AND trace_part.tenant = l.tenant AND trace_part.trace_id = l.trace_id;
