-- Acknowledge an open alert. Returns its id, or no row if it was not open.
UPDATE alert
SET "state" = 'acknowledged', acknowledged_at = make_timestamp($at_us::BIGINT), acknowledged_by = $by
WHERE tenant = $tenant AND alert_id = $alert_id AND "state" = 'open'
RETURNING alert_id;
