-- Return spans with the sums of their traces.
SELECT s.*, $columns
FROM spans AS s
LEFT JOIN traces AS t ON t.tenant = s.tenant AND t.trace_id = s.trace_id;
