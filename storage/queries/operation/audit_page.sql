-- Return audit entries before one of them, newest first, of one tenant ($tenant NULL: all). Optional filters: key (id
-- or name), text in the path, refused or not.
SELECT
    audit_id,
    epoch_us("at"),
    key_id,
    key_name,
    tenant,
    address,
    "method",
    "path",
    status,
    detail,
    request_id,
    times
FROM audit
WHERE audit_id < $before
    AND ($tenant::VARCHAR IS NULL OR tenant = $tenant)
    AND ($key::VARCHAR IS NULL OR key_id = $key OR key_name = $key)
    AND ($path::VARCHAR IS NULL OR contains("path", $path))
    AND ($refused::BOOLEAN IS NULL OR $refused = (status >= 400))
ORDER BY audit_id DESC
LIMIT $entries;
