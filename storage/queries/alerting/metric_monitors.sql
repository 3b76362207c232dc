-- Return metric monitors by name, of a tenant, plus shared ones (tenant ''). NULL returns those of all tenants. Deleted
-- ones are returned only on request, while their alert is open.
SELECT
    m.* EXCLUDE (created_at, updated_at, deleted_at, looked_at),
    m.deleted_at IS NOT NULL AS is_deleted,
    epoch_us(m.created_at) AS created_us,
    epoch_us(m.updated_at) AS updated_us,
    epoch_us(m.looked_at) AS looked_us
FROM metric_monitor AS m
WHERE
    ($tenant::VARCHAR IS NULL OR m.tenant IN ($tenant, ''))
    AND ($monitor_id::VARCHAR IS NULL OR m.monitor_id = $monitor_id)
    AND (m.deleted_at IS NULL OR ($deleted AND m.alert_id IS NOT NULL))
ORDER BY m.tenant, m.name, m.monitor_id;
