-- Disable a receiver, with the reason.
UPDATE alert_webhook
SET
    enabled = false,
    disabled_at = make_timestamp($at_us::BIGINT),
    disabled_reason = $reason,
    "version" = "version" + 1
WHERE webhook_id = $webhook_id AND enabled;
