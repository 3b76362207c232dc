-- Some traces that were added up from spans that another edition of the conventions read.
SELECT tenant, trace_id
FROM trace_reading
WHERE edition IS DISTINCT FROM $edition
LIMIT $traces;
