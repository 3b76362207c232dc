-- Return an item of a run of a tenant, or of a shared one (tenant ''). NULL searches all tenants.
SELECT i.* EXCLUDE (created_at), epoch_us(i.created_at) * 1000 AS created_at_ns, r.dataset_id
FROM run_item AS i
INNER JOIN run AS r USING (run_id)
WHERE i.item_number = $item_number
    AND ($tenant::VARCHAR IS NULL OR i.tenant IN ($tenant, ''));
