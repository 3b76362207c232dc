-- Delete annotations from before a moment of traces that are not stored. Once traces have moved to a lake, nothing here
-- tells which are stored there; then they leave with their traces alone.
DELETE FROM annotation AS a
WHERE a.created_at < make_timestamp($before_us)
    AND a.trace_id IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM trace_part AS p WHERE p.tenant = a.tenant AND p.trace_id = a.trace_id)
    AND NOT EXISTS (SELECT 1 FROM lake_boundary WHERE first_batch > 0);
