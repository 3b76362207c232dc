-- Return the connections that each enabled rule of a tenant names, by name or id: its own and those of its jury.
WITH in_force AS (
    SELECT rule."name", rule_revision.document
    FROM rule
    INNER JOIN rule_revision ON rule_revision.revision = rule.revision
    WHERE rule.tenant = $tenant AND rule.enabled AND rule.deleted_at IS NULL
)
SELECT "name", json_extract_string(document, '$.connectionId') AS connection
FROM in_force
WHERE connection IS NOT NULL
UNION ALL
SELECT "name", unnest(json_extract_string(document, '$.jury[*]')) AS connection
FROM in_force
ORDER BY "name", connection
