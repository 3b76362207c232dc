-- The scopes that no span and no log record names.
SELECT scope_id AS id
FROM scope
WHERE scope_id NOT IN (
    SELECT scope_id FROM span WHERE scope_id IS NOT NULL UNION SELECT scope_id FROM log_record WHERE scope_id IS NOT NULL
);
