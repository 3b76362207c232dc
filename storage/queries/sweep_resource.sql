-- Delete those of the unused resources that nothing names that came since.
DELETE FROM resource
WHERE resource_id IN (SELECT id FROM unused) AND resource_id NOT IN (
    SELECT resource_id FROM span WHERE batch > $batch AND resource_id IS NOT NULL
    UNION
    SELECT resource_id FROM log_record WHERE batch > $batch AND resource_id IS NOT NULL
);
