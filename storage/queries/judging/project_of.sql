-- Return the project with this name or id: of a tenant, else the shared one (tenant ''). NULL searches all tenants.
SELECT tenant, "name", project_id, epoch_ns(created_at)
FROM project
WHERE ($tenant::VARCHAR IS NULL OR tenant IN ($tenant, ''))
    AND ("name" = $key OR project_id = $key)
ORDER BY "name" = $key DESC, tenant <> coalesce($tenant, ''), tenant
LIMIT 1;
