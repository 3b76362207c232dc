-- Return the numbers of these rows of the lake that the database has no more, or of all: of those about traces with parts
-- from before a commit, here or in the lake. Rows from before all of these parts moved earlier.
WITH known AS (
    SELECT tenant, trace_id, min(write_number) AS write_number
    FROM (
        SELECT tenant, trace_id, write_number
        FROM trace_part
        ANTI JOIN trace_pin USING (tenant, trace_id)
        WHERE batch < $first_batch
        UNION ALL
        SELECT tenant, trace_id, write_number
        FROM lake_parts
    )
    GROUP BY tenant, trace_id
)
SELECT l.write_number AS number
FROM lake_rows AS l
JOIN known AS k ON k.tenant = l.tenant AND k.trace_id = l.trace_id
ANTI JOIN (SELECT write_number AS number FROM $table WHERE NOT $all) AS h ON h.number = l.write_number
WHERE l.write_number >= k.write_number;
