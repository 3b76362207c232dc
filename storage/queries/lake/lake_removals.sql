-- Return the traces that the lake has to lose.
SELECT tenant, trace_id, first_batch, last_batch, last_write, last_result
FROM lake_removal;
