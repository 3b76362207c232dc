-- Datasets that were not deleted, by name, each with its latest version: of a tenant and of none, NULL for all; of one
-- name or id where $key is given.
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
