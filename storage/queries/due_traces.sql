-- The traces that are to be added up.
SELECT DISTINCT tenant, trace_id
FROM trace_due;
