-- The resources that no span and no log record names.
SELECT resource_id AS id
FROM resource
WHERE resource_id NOT IN (
    SELECT resource_id FROM span WHERE resource_id IS NOT NULL UNION SELECT resource_id FROM log_record WHERE resource_id IS NOT NULL
);
