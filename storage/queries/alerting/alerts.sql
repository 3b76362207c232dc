-- Return alerts, newest first, of a tenant, plus shared ones (tenant ''). A filter that is NULL matches all.
SELECT
    a.* EXCLUDE (opened_at, acknowledged_at, recovered_at, escalated_at),
    epoch_us(a.opened_at) * 1000 AS opened_at_ns,
    epoch_us(a.acknowledged_at) * 1000 AS acknowledged_at_ns,
    epoch_us(a.recovered_at) * 1000 AS recovered_at_ns,
    epoch_us(a.escalated_at) * 1000 AS escalated_at_ns
FROM alert AS a
WHERE
    ($tenant::VARCHAR IS NULL OR a.tenant IN ($tenant, ''))
    AND ($alert_id IS NULL OR a.alert_id = $alert_id)
    AND ($project IS NULL OR a.project = $project)
    AND ($rule IS NULL OR a.rule_id = $rule OR a."rule" = $rule)
    AND ($state IS NULL OR a."state" = $state)
    AND ($kind IS NULL OR a.kind = $kind)
    AND ($metric::VARCHAR IS NULL OR a.metric IN ($metric, CASE $metric WHEN 'root_errors' THEN 'trace_errors' END)) -- its name in earlier versions
    AND ($severity::VARCHAR IS NULL OR a.severity = $severity)
ORDER BY a.opened_at DESC, a.alert_id
LIMIT $limit OFFSET $offset;
