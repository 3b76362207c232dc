-- One of the deliveries that are to be attempted, or gathered for a digest, if there are any.
SELECT delivery_id
FROM alert_delivery
WHERE "state" IN ('pending', 'gathered')
LIMIT 1;
