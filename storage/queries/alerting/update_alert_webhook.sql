-- Update a receiver if its version is unchanged. A receiver that was switched off automatically starts afresh when it
-- is switched on.
UPDATE alert_webhook
SET
    url = $url,
    template = $template,
    events = $events,
    rules = $rules::VARCHAR[],
    severities = $severities::VARCHAR[],
    digest_minutes = $digest_minutes::INTEGER,
    sealed = $sealed,
    has_secret = $has_secret,
    previous_until = make_timestamp($previous_until_us::BIGINT),
    disabled_at = CASE WHEN NOT $enabled THEN disabled_at END,
    disabled_reason = CASE WHEN NOT $enabled THEN disabled_reason END,
    failing_since = CASE WHEN enabled THEN failing_since END,
    failures = CASE WHEN enabled THEN failures ELSE 0 END,
    enabled = $enabled,
    "version" = "version" + 1,
    updated_at = make_timestamp($at_us::BIGINT)
WHERE webhook_id = $webhook_id AND "version" = $version AND deleted_at IS NULL
RETURNING webhook_id;
