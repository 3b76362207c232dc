-- How many parts of traces there are.
SELECT count(*) FROM trace_part;
