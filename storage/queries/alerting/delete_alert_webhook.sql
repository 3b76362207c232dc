-- Mark a receiver as deleted and erase its secrets, if its version is unchanged.
UPDATE alert_webhook
SET deleted_at = make_timestamp($at_us::BIGINT), enabled = false, sealed = NULL, has_secret = false
WHERE webhook_id = $webhook_id AND "version" = $version AND deleted_at IS NULL
RETURNING webhook_id;
