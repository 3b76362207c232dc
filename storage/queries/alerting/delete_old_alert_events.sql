-- Delete events from before an instant without pending deliveries.
DELETE FROM alert_event
WHERE
    created_at < make_timestamp($before_us::BIGINT)
    AND event_id NOT IN (SELECT event_id FROM alert_delivery);
