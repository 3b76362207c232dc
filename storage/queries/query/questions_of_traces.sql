-- Return the inputs of traces, shortened. All rows are searched by key alone, and only matching inputs are read.
SELECT tenant, trace_id, left("input", $characters) AS input
FROM trace_reading
WHERE rowid IN (SELECT rowid FROM trace_reading WHERE trace_key IN (SELECT unnest(string_split($keys, ',')::UBIGINT[])))
    AND "input" IS NOT NULL
    AND list_contains(string_split($ids, ','), trace_id)
    AND ($tenant::VARCHAR IS NULL OR tenant IN ($tenant, ''))
ORDER BY tenant;
