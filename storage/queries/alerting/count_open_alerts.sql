-- Count the unacknowledged alerts, up to a limit, of a tenant, plus shared ones (tenant ''). NULL counts those of all
-- tenants.
SELECT count(*)
FROM (
    SELECT alert_id
    FROM alert
    WHERE "state" = 'open' AND ($tenant::VARCHAR IS NULL OR tenant IN ($tenant, ''))
    LIMIT $most
);
