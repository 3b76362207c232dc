-- Return datasets that are not deleted, by name, with their latest versions, of a tenant, plus shared ones (tenant '').
-- NULL returns those of all tenants. $key selects one by name or id; NULL matches all.
SELECT
    d.* EXCLUDE (created_at, updated_at, deleted_at),
    epoch_us(d.created_at) * 1000 AS created_at_ns,
    epoch_us(d.updated_at) * 1000 AS updated_at_ns,
    coalesce(v.version, 0) AS latest_version,
    coalesce(v.item_count, 0) AS latest_item_count
FROM dataset AS d
LEFT JOIN (
    SELECT dataset_id, max("version") AS "version", arg_max(item_count, "version") AS item_count
    FROM dataset_version
    GROUP BY dataset_id
) AS v ON v.dataset_id = d.dataset_id
WHERE d.deleted_at IS NULL
    AND ($tenant::VARCHAR IS NULL OR d.tenant IN ($tenant, ''))
    AND ($key::VARCHAR IS NULL OR d.name = $key OR d.dataset_id = $key)
ORDER BY d.name, d.tenant;
