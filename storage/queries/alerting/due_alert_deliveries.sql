-- Return due deliveries with their events, longest due first, up to a limit for each receiver.
SELECT
    d.delivery_id,
    d.webhook_id,
    d.attempts,
    d.replays,
    e.event_id,
    e."type",
    e.alert_id,
    e."document",
    epoch_us(e.created_at) * 1000 AS created_at_ns
FROM alert_delivery AS d
INNER JOIN alert_webhook AS w ON d.webhook_id = w.webhook_id
INNER JOIN alert_event AS e ON d.event_id = e.event_id
WHERE
    d."state" = 'pending'
    AND (
        d.not_before <= make_timestamp($at_us::BIGINT)
        -- More than a minute ahead: the clock was set back since, and nothing says how long the delay still lasts. Less is
        -- an attempt stored after $at_us was read.
        OR coalesce(d.last_attempt_at, d.created_at) > make_timestamp($at_us::BIGINT + 60000000)
    )
QUALIFY row_number() OVER (PARTITION BY d.webhook_id ORDER BY d.not_before, d.delivery_id) <= $each
ORDER BY d.not_before, d.delivery_id
LIMIT $limit;
