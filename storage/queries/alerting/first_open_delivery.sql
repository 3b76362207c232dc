-- Return one pending or gathered delivery, if there is any.
SELECT delivery_id
FROM alert_delivery
WHERE "state" IN ('pending', 'gathered')
LIMIT 1;
