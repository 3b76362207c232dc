-- Return the tenants with results about their spans, or with sums of results whose traces were deleted; "" is no
-- tenant.
SELECT tenant FROM evaluation
UNION
SELECT tenant FROM evaluation_day
ORDER BY tenant
LIMIT $limit;
