-- Update a receiver if its version is unchanged. A receiver that was switched off automatically starts afresh when it
-- is switched on. `$options` has a value for each column of its settings.
MERGE INTO alert_webhook AS old
USING (
    SELECT
        unnest($options),
        w.webhook_id,
        $url AS url,
        $events AS events,
        $sealed AS sealed,
        $has_secret AS has_secret,
        make_timestamp($previous_until_us::BIGINT) AS previous_until,
        CASE WHEN NOT $options.enabled THEN w.disabled_at END AS disabled_at,
        CASE WHEN NOT $options.enabled THEN w.disabled_reason END AS disabled_reason,
        CASE WHEN w.enabled THEN w.failing_since END AS failing_since,
        CASE WHEN w.enabled THEN w.failures ELSE 0 END AS failures,
        w."version" + 1 AS "version",
        make_timestamp($at_us::BIGINT) AS updated_at
    FROM alert_webhook AS w
    WHERE w.webhook_id = $webhook_id AND w."version" = $version AND w.deleted_at IS NULL
) AS new ON old.webhook_id = new.webhook_id
WHEN MATCHED THEN UPDATE BY NAME
RETURNING webhook_id;
