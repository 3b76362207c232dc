-- Return the first and the last revision of a rule; NULL if it has none.
SELECT min(revision) AS first_revision, max(revision) AS last_revision
FROM rule_revision
WHERE rule_id = $rule_id;
