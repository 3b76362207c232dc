-- Return the spans of leaving traces that belong to the commits between two numbers.
SELECT seq, trace_id
FROM span
SEMI JOIN leaving_traces USING (tenant, trace_id)
WHERE batch BETWEEN $first_batch AND $last_batch;
