-- Record the digest that reports gathered deliveries.
UPDATE alert_delivery
SET "state" = 'digested', finished_at = make_timestamp($at_us::BIGINT)
WHERE "state" = 'gathered' AND delivery_id IN (SELECT unnest($delivery_ids::VARCHAR[]));
