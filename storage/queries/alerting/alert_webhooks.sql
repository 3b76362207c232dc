-- Return receivers that are not deleted, oldest first. A filter that is NULL matches all.
SELECT
    w.* EXCLUDE (
        previous_until,
        disabled_at,
        failing_since,
        last_success_at,
        created_at,
        updated_at,
        deleted_at
    ),
    epoch_us(w.previous_until) * 1000 AS previous_until_ns,
    epoch_us(w.disabled_at) * 1000 AS disabled_at_ns,
    epoch_us(w.failing_since) * 1000 AS failing_since_ns,
    epoch_us(w.last_success_at) * 1000 AS last_success_at_ns,
    epoch_us(w.created_at) * 1000 AS created_at_ns,
    epoch_us(w.updated_at) * 1000 AS updated_at_ns
FROM alert_webhook AS w
WHERE
    ($tenant::VARCHAR IS NULL OR w.tenant = $tenant)
    AND w.deleted_at IS NULL
    AND ($webhook_id IS NULL OR w.webhook_id = $webhook_id)
    AND ($every OR w.project IS NOT DISTINCT FROM $project)
ORDER BY w.created_at, w.webhook_id;
