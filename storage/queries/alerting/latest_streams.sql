-- Return the monitor state of the stream of each rule and service whose evaluator had a result last. A filter that is
-- NULL matches all.
SELECT m.* EXCLUDE (since, updated), epoch_us(m.since) AS since_us, epoch_us(m.updated) AS updated_us
FROM monitor_state AS m
WHERE ($tenant::VARCHAR IS NULL OR m.tenant IN ($tenant, ''))
    AND ($rule_id::VARCHAR IS NULL OR m.rule_id = $rule_id)
    AND NOT starts_with(m.fingerprint, 'scores:')
QUALIFY row_number() OVER (
    PARTITION BY m.tenant, m.project, m.rule_id, m.service ORDER BY m.updated DESC, m.fingerprint
) = 1;
