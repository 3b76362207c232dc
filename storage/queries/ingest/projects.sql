-- Projects that were made, and those that traces name, by name: of a tenant and of none; NULL for all.
SELECT coalesce(p.tenant, t.tenant), coalesce(p.name, t.project), p.project_id, epoch_ns(p.created_at)
FROM (
    SELECT DISTINCT tenant, coalesce(root_project, first_project) AS project FROM trace_part
) AS t
FULL JOIN project AS p ON p.tenant = t.tenant AND p.name = t.project
WHERE ($tenant::VARCHAR IS NULL OR coalesce(p.tenant, t.tenant) IN ($tenant, ''))
    AND coalesce(p.name, t.project) IS NOT NULL
ORDER BY 2, 1;
