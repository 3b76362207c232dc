-- Delete a metric monitor if its version is unchanged. Returns its id, or no row.
UPDATE metric_monitor
SET deleted_at = make_timestamp($at_us::BIGINT), "version" = "version" + 1
WHERE monitor_id = $monitor_id AND "version" = $version AND deleted_at IS NULL
RETURNING monitor_id;
