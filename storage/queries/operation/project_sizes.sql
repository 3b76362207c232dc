-- Count the roots (about as many as traces) and spans of each project of each tenant, and return when the first and
-- the last began. Counting traces took five times as long, and memory for each.
SELECT
    tenant,
    coalesce(root_project, first_project) AS project,
    count(root_start_time) AS roots,
    sum(span_count)::BIGINT AS spans,
    epoch_ns(min(start_time)) AS first_ns,
    epoch_ns(max(last_start_time)) AS last_ns
FROM trace_part
GROUP BY ALL
ORDER BY project NULLS LAST, tenant;
