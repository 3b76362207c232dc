-- Add a monitor of a metric, unless the tenant has one of that name or as many as it may have; the id says that it was
-- added.
INSERT INTO metric_monitor BY NAME
SELECT
    $tenant AS tenant,
    $monitor_id AS monitor_id,
    $name AS "name",
    $document AS document,
    1 AS "version",
    make_timestamp($at_us::BIGINT) AS created_at,
    make_timestamp($at_us::BIGINT) AS updated_at
WHERE
    NOT EXISTS (
        SELECT 1 FROM metric_monitor AS m WHERE m.tenant = $tenant AND m.name = $name AND m.deleted_at IS NULL
    )
    AND (SELECT count(*) FROM metric_monitor AS m WHERE m.tenant = $tenant AND m.deleted_at IS NULL) < $most
RETURNING monitor_id;
