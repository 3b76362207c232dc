-- Return when the next delivery or digest is due after an instant.
SELECT epoch_us(min(not_before)) AS due_us
FROM alert_delivery
WHERE "state" IN ('pending', 'gathered') AND not_before > make_timestamp($at_us::BIGINT);
