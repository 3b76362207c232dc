-- Return the monitor states of all streams of some rules.
SELECT m.* EXCLUDE (since, updated), epoch_us(m.since) AS since_us, epoch_us(m.updated) AS updated_us
FROM monitor_state AS m
SEMI JOIN wanted_rules AS w
    ON w.tenant = m.tenant AND w.project IS NOT DISTINCT FROM m.project AND w.rule_id = m.rule_id
    AND w.service IS NOT DISTINCT FROM m.service;
