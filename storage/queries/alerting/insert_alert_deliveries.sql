-- Queue an event of a tenant for each receiver of the tenant and of none that wants it, unless its alert is muted, or
-- for one whatever it wants; for its next digest where it has digests. Not again where it is queued.
INSERT INTO alert_delivery BY NAME
SELECT
    md5($event_id || '/' || w.webhook_id) AS delivery_id,
    w.tenant,
    $event_id AS event_id,
    w.webhook_id,
    $type AS "type",
    CASE WHEN w.digest_minutes IS NULL OR $alert_id::VARCHAR IS NULL THEN 'pending' ELSE 'gathered' END AS "state",
    0 AS attempts,
    0 AS replays,
    make_timestamp(
        CASE
            WHEN w.digest_minutes IS NULL OR $alert_id::VARCHAR IS NULL THEN $at_us::BIGINT
            ELSE ($at_us::BIGINT // (w.digest_minutes * 60000000::BIGINT) + 1) * w.digest_minutes * 60000000::BIGINT
        END
    ) AS not_before,
    make_timestamp($at_us::BIGINT) AS created_at
FROM alert_webhook AS w
LEFT JOIN alert AS a ON a.tenant = $tenant AND a.alert_id = $alert_id
WHERE
    w.tenant IN ($tenant, '')
    AND w.deleted_at IS NULL
    AND CASE
        WHEN $webhook_id IS NULL
            THEN
                w.enabled
                AND list_contains(w.events, $type)
                AND (w.project IS NULL OR w.project = $project)
                AND (w.rules IS NULL OR $alert_id::VARCHAR IS NULL OR list_contains(w.rules, a.rule_id) OR list_contains(w.rules, a."rule"))
                AND (w.severities IS NULL OR $alert_id::VARCHAR IS NULL OR list_contains(w.severities, a.severity))
                AND NOT EXISTS (
                    SELECT 1
                    FROM alert_mute AS m
                    WHERE
                        m.tenant IN ($tenant, '')
                        AND m.until > make_timestamp($at_us::BIGINT)
                        AND (m.project IS NULL OR m.project = $project)
                        AND (m.rule IS NULL OR m.rule IN (a.rule_id, a."rule"))
                )
        ELSE w.webhook_id = $webhook_id
    END
    AND NOT EXISTS (SELECT 1 FROM alert_delivery AS d WHERE d.event_id = $event_id AND d.webhook_id = w.webhook_id)
RETURNING delivery_id;
