-- Return the deliveries of digests that are due, by receiver, oldest event first.
SELECT
    d.delivery_id,
    d.webhook_id,
    w.tenant,
    w.project,
    e.event_id,
    e."type",
    e.alert_id,
    epoch_us(e.created_at) * 1000 AS event_ns,
    epoch_us(d.not_before) * 1000 AS due_ns
FROM alert_delivery AS d
INNER JOIN alert_webhook AS w ON d.webhook_id = w.webhook_id
INNER JOIN alert_event AS e ON d.event_id = e.event_id
WHERE
    d."state" = 'gathered'
    AND (
        d.not_before <= make_timestamp($at_us::BIGINT)
        -- More than a minute ahead: the clock was set back since. Less is an event stored after $at_us was read.
        OR d.created_at > make_timestamp($at_us::BIGINT + 60000000)
    )
ORDER BY d.webhook_id, e.created_at, e."type", d.delivery_id
LIMIT $limit;
