-- Return alerts that have not recovered although their rule was deleted, and when they recover: after ten minutes for
-- rules of files, which may be missing while a file is replaced.
SELECT
    a.tenant,
    a.alert_id,
    epoch_us(r.deleted_at + CASE WHEN r.origin = 'FILE' THEN INTERVAL 10 MINUTE ELSE INTERVAL 0 MINUTE END) AS over_us
FROM alert AS a
INNER JOIN rule AS r ON r.rule_id = a.rule_id
WHERE a."state" <> 'recovered' AND r.deleted_at IS NOT NULL
ORDER BY a.opened_at, a.alert_id;
