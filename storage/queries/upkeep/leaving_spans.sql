-- The spans of the leaving traces that came with the commits between two numbers.
SELECT seq, trace_id
FROM span
SEMI JOIN leaving_traces USING (tenant, trace_id)
WHERE batch BETWEEN $first_batch AND $last_batch;
