-- The number of unacknowledged alerts, of a tenant and of none (NULL: of all); at most so many are counted.
SELECT count(*)
FROM (
    SELECT alert_id
    FROM alert
    WHERE "state" = 'open' AND ($tenant::VARCHAR IS NULL OR tenant IN ($tenant, ''))
    LIMIT $most
);
