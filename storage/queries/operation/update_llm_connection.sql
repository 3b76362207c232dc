-- Update a connection if its version is unchanged.
UPDATE llm_connection SET
    "name" = $name,
    document = $document,
    secret = $secret::BLOB,
    "version" = $version,
    updated_at = $updated_at::TIMESTAMP,
    deleted_at = CASE WHEN $is_deleted THEN $updated_at::TIMESTAMP END
WHERE connection_id = $connection_id AND "version" = $version - 1
