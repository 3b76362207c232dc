-- The project that is called so, or has this id: of a tenant, then of none; NULL for all.
SELECT tenant, "name", project_id, epoch_ns(created_at)
FROM project
WHERE ($tenant::VARCHAR IS NULL OR tenant IN ($tenant, ''))
    AND ("name" = $key OR project_id = $key)
ORDER BY "name" = $key DESC, tenant <> coalesce($tenant, ''), tenant
LIMIT 1;
