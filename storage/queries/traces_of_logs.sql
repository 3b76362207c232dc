-- The traces whose log records came with the commits after one and up to another.
SELECT DISTINCT tenant, trace_id
FROM log_record
WHERE batch > $after AND batch <= $until;
