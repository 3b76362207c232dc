-- Delete those of the unused scopes that nothing names that came since.
DELETE FROM scope
WHERE scope_id IN (SELECT id FROM unused) AND scope_id NOT IN (
    SELECT scope_id FROM span WHERE batch > $batch AND scope_id IS NOT NULL
    UNION
    SELECT scope_id FROM log_record WHERE batch > $batch AND scope_id IS NOT NULL
);
