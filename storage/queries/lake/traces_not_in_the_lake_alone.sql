-- Return traces whose rows in the lake are not to be read: those that leave it, up to a number of their writes, and
-- those of before the boundary that the database still has.
SELECT tenant, trace_id, last_write
FROM lake_removal
UNION ALL
SELECT DISTINCT tenant, trace_id, 9223372036854775807 AS last_write
FROM trace_part
WHERE batch < (SELECT max(first_batch) FROM lake_boundary);
