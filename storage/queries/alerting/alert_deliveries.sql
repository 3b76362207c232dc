-- Return deliveries to a receiver or about an alert of a tenant, newest first. A filter that is NULL matches all.
SELECT
    d.delivery_id,
    d.event_id,
    d.webhook_id,
    d."type",
    e.alert_id,
    d."state",
    d.attempts,
    d.replays,
    d.last_status,
    d.last_error,
    CASE WHEN d."state" IN ('pending', 'gathered') THEN epoch_us(d.not_before) * 1000 END AS next_attempt_at_ns,
    epoch_us(d.last_attempt_at) * 1000 AS last_attempt_at_ns,
    epoch_us(d.created_at) * 1000 AS created_at_ns,
    epoch_us(d.finished_at) * 1000 AS finished_at_ns
FROM alert_delivery AS d
INNER JOIN alert_event AS e ON d.event_id = e.event_id
WHERE
    ($webhook_id IS NULL OR d.webhook_id = $webhook_id)
    AND ($tenant IS NULL OR e.tenant = $tenant)
    AND ($alert_id IS NULL OR e.alert_id = $alert_id)
    AND ($delivery_id IS NULL OR d.delivery_id = $delivery_id)
    AND ($state IS NULL OR d."state" = $state)
ORDER BY d.created_at DESC, d."type" DESC, d.delivery_id
LIMIT $limit OFFSET $offset;
