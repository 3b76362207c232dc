-- Return the row ids of log records from before a commit that the lake has, and whose traces have no part from before it.
SELECT r.rowid AS place
FROM log_record AS r
ANTI JOIN (SELECT tenant, trace_id FROM trace_part WHERE batch < $first_batch) AS p
    ON p.tenant = r.tenant AND p.trace_id = r.trace_id
WHERE r.batch < $first_batch AND r.write_number <= $log_record
LIMIT $rows;
