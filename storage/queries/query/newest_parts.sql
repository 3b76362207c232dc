-- Return the trace parts with the latest start, newest first. The line that ends with `from_ns` is kept only if they have
-- to start then or later.
SELECT trace_id, epoch_ns(start_time)
FROM trace_part
WHERE ($tenant IS NULL OR tenant IN ($tenant, ''))
    AND ($project IS NULL OR coalesce(root_project, first_project) = $project)
    AND start_time >= make_timestamp_ns($from_ns) -- from_ns
ORDER BY start_time DESC
LIMIT $parts;
