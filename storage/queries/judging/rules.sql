-- Return all rules, including deleted ones, oldest first.
SELECT
    tenant,
    rule_id,
    project,
    "name",
    origin,
    "file",
    "text",
    enabled,
    revision,
    "version",
    epoch_us(created_at) AS created_at_us,
    epoch_us(updated_at) AS updated_at_us,
    epoch_us(deleted_at) AS deleted_at_us
FROM rule
ORDER BY created_at, "name", rule_id;
