-- Return the trace parts with the latest start, newest first.
SELECT trace_id, epoch_ns(start_time)
FROM trace_part
WHERE ($tenant IS NULL OR tenant IN ($tenant, ''))
    AND ($project IS NULL OR coalesce(root_project, first_project) = $project)
ORDER BY start_time DESC
LIMIT $parts;
