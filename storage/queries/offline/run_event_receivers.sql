-- Return whether a receiver subscribes to an event of a tenant's project.
SELECT count(*) > 0
FROM alert_webhook AS w
WHERE
    w.tenant IN ($tenant, '')
    AND w.deleted_at IS NULL
    AND w.enabled
    AND list_contains(w.events, $type)
    AND (w.project IS NULL OR w.project = $project);
