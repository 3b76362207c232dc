-- Return saved views by name, of a tenant, plus shared ones (tenant ''). NULL returns those of all tenants.
SELECT
    v.* EXCLUDE (created_at, updated_at),
    epoch_us(v.created_at) AS created_us,
    epoch_us(v.updated_at) AS updated_us
FROM saved_view AS v
WHERE
    ($tenant::VARCHAR IS NULL OR v.tenant IN ($tenant, ''))
    AND ($view_id::VARCHAR IS NULL OR v.view_id = $view_id)
ORDER BY lower(v.name), v.name, v.tenant, v.view_id;
