-- Update a metric monitor if its version is unchanged and no other has its new name. Returns its id, or no row.
UPDATE metric_monitor
SET
    "name" = $name,
    document = $document,
    "version" = "version" + 1,
    updated_at = make_timestamp($at_us::BIGINT)
WHERE
    monitor_id = $monitor_id
    AND "version" = $version
    AND deleted_at IS NULL
    AND NOT EXISTS (
        SELECT 1
        FROM metric_monitor AS m
        WHERE m.tenant = $tenant AND m.name = $name AND m.monitor_id <> $monitor_id AND m.deleted_at IS NULL
    )
RETURNING monitor_id;
