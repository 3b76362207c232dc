-- Cancel the pending deliveries of a receiver. A test delivery is kept if only `enabled` changed.
UPDATE alert_delivery
SET "state" = 'cancelled', finished_at = make_timestamp($at_us::BIGINT), last_error = coalesce($error, last_error)
WHERE webhook_id = $webhook_id AND "state" IN ('pending', 'gathered') AND ($tests OR "type" <> 'webhook.test');
