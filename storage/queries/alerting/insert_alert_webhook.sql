-- Add a receiver. `$options` has a value for each column of its settings.
INSERT INTO alert_webhook BY NAME
SELECT
    unnest($options),
    $tenant AS tenant,
    $webhook_id AS webhook_id,
    $project AS project,
    $origin AS origin,
    $url AS url,
    $events AS events,
    $sealed AS sealed,
    $has_secret AS has_secret,
    make_timestamp($previous_until_us::BIGINT) AS previous_until,
    0 AS failures,
    1 AS "version",
    make_timestamp($at_us::BIGINT) AS created_at,
    make_timestamp($at_us::BIGINT) AS updated_at;
