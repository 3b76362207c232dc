-- Record that an alert has recovered. Returns its id, or no row if it had recovered before.
UPDATE alert
SET "state" = 'recovered', recovered_at = make_timestamp($at_us::BIGINT), recovery = $recovery
WHERE tenant = $tenant AND alert_id = $alert_id AND "state" <> 'recovered'
RETURNING alert_id;
