-- A receiver took something: whatever went wrong before is forgotten.
UPDATE alert_webhook
SET failing_since = NULL, failures = 0, last_success_at = make_timestamp($at_us::BIGINT)
WHERE webhook_id = $webhook_id;
