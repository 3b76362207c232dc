-- Which connection does each enabled rule of a tenant name, by its name or its id?
SELECT rule."name", json_extract_string(rule_revision.document, '$.connectionId') AS connection
FROM rule
INNER JOIN rule_revision ON rule_revision.revision = rule.revision
WHERE rule.tenant = $tenant AND rule.enabled AND rule.deleted_at IS NULL AND connection IS NOT NULL
ORDER BY rule."name"
