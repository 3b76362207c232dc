-- Count the parts of traces.
SELECT count(*) FROM trace_part;
