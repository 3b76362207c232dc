-- Store what a look at a metric found, if the monitor is still the one that was looked at; the id, if so.
UPDATE metric_monitor
SET "state" = $state, alert_id = $alert_id, looked_at = make_timestamp($at_us::BIGINT)
WHERE monitor_id = $monitor_id AND "version" = $version
RETURNING monitor_id;
