-- Record a failure of a receiver: since when it fails, and how many deliveries were given up.
UPDATE alert_webhook
SET
    failing_since = coalesce(failing_since, make_timestamp($at_us::BIGINT)),
    failures = failures + CASE WHEN $given_up THEN 1 ELSE 0 END
WHERE webhook_id = $webhook_id
RETURNING epoch_us(failing_since) AS failing_since_us, failures;
