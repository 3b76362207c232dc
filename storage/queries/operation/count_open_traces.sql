-- Count the traces that have not settled.
SELECT count(DISTINCT tenant || trace_id) FROM trace_open;
