-- Return the numbers of these rows of the lake about traces to remove, with the numbers of their spans.
SELECT DISTINCT l.$number AS number, $seq AS seq
FROM lake_rows AS l
JOIN lake_traces AS t ON t.tenant = l.tenant AND t.trace_id = l.trace_id
WHERE l.$number <= t.$last;
