-- Return the mutes in effect at an instant, earliest end first, of a tenant, plus shared ones (tenant ''). NULL returns
-- those of all tenants.
SELECT m.* EXCLUDE (until, created_at), epoch_us(m.until) * 1000 AS until_ns, epoch_us(m.created_at) * 1000 AS created_at_ns
FROM alert_mute AS m
WHERE
    ($tenant::VARCHAR IS NULL OR m.tenant IN ($tenant, ''))
    AND ($mute_id::VARCHAR IS NULL OR m.mute_id = $mute_id)
    AND m.until > make_timestamp($at_us::BIGINT)
ORDER BY m.until, m.mute_id;
