-- Forget what the traces meant that are added up again. They are found by the key alone, which is a tenth of what an id
-- is to read.
DELETE FROM trace_reading
WHERE rowid IN (
    SELECT r.rowid
    FROM trace_reading AS r
    JOIN wanted_traces AS w ON w.trace_key = r.trace_key
    WHERE w.tenant = r.tenant AND w.trace_id = r.trace_id
);
