-- Insert a key.
INSERT INTO api_key (
    key_id, tenant, "name", "role", digest, hint, enabled, expires_at, last_used_at, created_at, created_by
)
VALUES (
    $key_id,
    $tenant,
    $name,
    $role,
    $digest,
    $hint,
    $enabled,
    make_timestamp($expires_us),
    make_timestamp($last_used_us),
    make_timestamp($created_us),
    $created_by
);
