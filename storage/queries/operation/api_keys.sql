-- Return all keys that are not deleted, oldest first.
SELECT
    key_id,
    tenant,
    "name",
    "role",
    digest,
    hint,
    enabled,
    epoch_us(expires_at),
    epoch_us(last_used_at),
    epoch_us(created_at),
    created_by
FROM api_key
ORDER BY created_at, key_id;
