-- What traces were asked, in short. Of all rows the key alone is looked at, and of inputs those found.
SELECT tenant, trace_id, left("input", $characters) AS input
FROM trace_reading
WHERE rowid IN (SELECT rowid FROM trace_reading WHERE trace_key IN (SELECT unnest(string_split($keys, ',')::UBIGINT[])))
    AND "input" IS NOT NULL
    AND list_contains(string_split($ids, ','), trace_id)
    AND ($tenant::VARCHAR IS NULL OR tenant IN ($tenant, ''))
ORDER BY tenant;
