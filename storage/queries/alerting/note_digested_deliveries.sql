-- Note that a digest tells of deliveries that were gathered.
UPDATE alert_delivery
SET "state" = 'digested', finished_at = make_timestamp($at_us::BIGINT)
WHERE "state" = 'gathered' AND delivery_id IN (SELECT unnest($delivery_ids::VARCHAR[]));
