-- Everything that a rule ever said, the latest first.
SELECT revision, digest, rule, project, document, epoch_ns(created_at) AS created_at_ns
FROM rule_revision
WHERE rule_id = $rule_id
ORDER BY revision DESC;
