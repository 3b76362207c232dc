-- Return the revisions with these numbers.
SELECT revision, rule_id, tenant, digest, rule, project, target, evaluator, document, clauses
FROM rule_revision
WHERE revision IN (SELECT unnest($numbers::INTEGER[]));
