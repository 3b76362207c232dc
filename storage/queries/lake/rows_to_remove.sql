-- Return the numbers of these rows of the lake about traces to remove, with the numbers of their spans. Rows that are
-- here stay, if the removal would have deleted them here as well: their trace began again.
SELECT DISTINCT l.$number AS number, $seq AS seq
FROM lake_rows AS l
JOIN lake_traces AS t ON t.tenant = l.tenant AND t.trace_id = l.trace_id
ANTI JOIN (
    SELECT $number AS number
    FROM $table
    SEMI JOIN lake_traces USING (tenant, trace_id)
    WHERE $stays
) AS h ON h.number = l.$number
WHERE l.$number <= t.$last;
