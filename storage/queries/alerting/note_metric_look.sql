-- Save a metric evaluation if the monitor's version is unchanged. Returns its id, or no row.
UPDATE metric_monitor
SET "state" = $state, alert_id = $alert_id, looked_at = make_timestamp($at_us::BIGINT)
WHERE monitor_id = $monitor_id AND "version" = $version
RETURNING monitor_id;
