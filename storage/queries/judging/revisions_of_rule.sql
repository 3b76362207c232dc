-- Return the revisions of a rule up to a number, latest first. NULL: up to the latest.
SELECT revision, digest, rule, project, document, epoch_ns(created_at) AS created_at_ns
FROM rule_revision
WHERE rule_id = $rule_id AND ($newest IS NULL OR revision <= $newest)
ORDER BY revision DESC
LIMIT $rows;
