-- Return a row if there are, or were, rules about sessions.
SELECT 1
FROM rule_revision
WHERE target = 'SESSION'
LIMIT 1;
