-- Return monitor states by project and rule, newest first, of a tenant, plus shared ones (tenant ''). NULL returns
-- those of all tenants. A filter that is NULL matches all.
SELECT m.* EXCLUDE (since, updated), epoch_us(m.since) AS since_us, epoch_us(m.updated) AS updated_us
FROM monitor_state AS m
LEFT JOIN rule AS r ON r.rule_id = m.rule_id
WHERE ($tenant::VARCHAR IS NULL OR m.tenant IN ($tenant, ''))
    AND ($project::VARCHAR IS NULL OR m.project = $project)
    AND ($rule::VARCHAR IS NULL OR m.rule_id = $rule OR r.name = $rule)
ORDER BY m.tenant, m.project, r.name, m.rule_id, m.service, m.updated DESC, m.fingerprint
LIMIT $limit OFFSET $offset;
