-- Queue an event of a tenant for each receiver of the tenant and of none that wants it, or for one whatever it wants; not again where it is queued.
INSERT INTO alert_delivery BY NAME
SELECT
    md5($event_id || '/' || w.webhook_id) AS delivery_id,
    w.tenant,
    $event_id AS event_id,
    w.webhook_id,
    $type AS "type",
    'pending' AS "state",
    0 AS attempts,
    0 AS replays,
    make_timestamp($at_us::BIGINT) AS not_before,
    make_timestamp($at_us::BIGINT) AS created_at
FROM alert_webhook AS w
WHERE
    w.tenant IN ($tenant, '')
    AND w.deleted_at IS NULL
    AND CASE
        WHEN $webhook_id IS NULL
            THEN w.enabled AND list_contains(w.events, $type) AND (w.project IS NULL OR w.project = $project)
        ELSE w.webhook_id = $webhook_id
    END
    AND NOT EXISTS (SELECT 1 FROM alert_delivery AS d WHERE d.event_id = $event_id AND d.webhook_id = w.webhook_id)
RETURNING delivery_id;
