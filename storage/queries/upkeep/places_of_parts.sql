-- Return the row ids of the leaving traces' parts that belong to the commits between two numbers.
SELECT p.rowid AS place
FROM trace_part AS p
SEMI JOIN leaving_traces AS l ON l.trace_key = p.trace_key AND l.tenant = p.tenant AND l.trace_id = p.trace_id
WHERE p.batch BETWEEN $first_batch AND $last_batch;
