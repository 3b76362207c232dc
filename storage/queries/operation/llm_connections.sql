-- Return all connections, including those that a file had earlier.
SELECT
    tenant,
    connection_id,
    "name",
    origin,
    document,
    secret,
    "version",
    created_at,
    updated_at,
    deleted_at IS NOT NULL AS is_deleted
FROM llm_connection
WHERE deleted_at IS NULL OR origin = 'FILE'
ORDER BY created_at, connection_id
