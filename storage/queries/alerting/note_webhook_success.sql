-- Record a success of a receiver, and reset its failures.
UPDATE alert_webhook
SET failing_since = NULL, failures = 0, last_success_at = make_timestamp($at_us::BIGINT)
WHERE webhook_id = $webhook_id;
