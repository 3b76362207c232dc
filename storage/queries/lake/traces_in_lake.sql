-- Return the traces in the lake that a deletion selects by project and start time, with the bounds of their parts up to
-- a commit; NULL matches all. Of those that name a session or a user only if any of their spans does.
SELECT tenant, trace_id, min(batch) AS first_batch, max(batch) AS last_batch, sum(span_count)::BIGINT AS spans
FROM lake_parts
WHERE batch <= $until_batch AND (NOT $of_person OR trace_id IN (SELECT trace_id FROM lake_named))
GROUP BY tenant, trace_id
HAVING ($before_ns IS NULL OR min(start_time) < $before_ns)
    AND (
        $project IS NULL
        OR coalesce(arg_min(root_project, root_start_time), arg_min(first_project, start_time)) = $project
    );
