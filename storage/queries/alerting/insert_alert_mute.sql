-- Mute alerts for a while, unless the tenant has the maximum number of mutes. Returns the id, or no row.
INSERT INTO alert_mute BY NAME
SELECT
    $tenant AS tenant,
    $mute_id AS mute_id,
    $project AS project,
    $rule AS "rule",
    make_timestamp($until_us::BIGINT) AS until,
    $muted_by AS muted_by,
    make_timestamp($at_us::BIGINT) AS created_at
WHERE
    (
        SELECT count(*) FROM alert_mute AS m WHERE m.tenant = $tenant AND m.until > make_timestamp($at_us::BIGINT)
    ) < $most
RETURNING mute_id;
