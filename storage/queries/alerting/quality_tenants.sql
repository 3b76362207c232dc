-- Tenants with results about their spans, or sums of results whose traces are gone; "" is no tenant.
SELECT tenant FROM evaluation
UNION
SELECT tenant FROM evaluation_day
ORDER BY tenant
LIMIT $limit;
