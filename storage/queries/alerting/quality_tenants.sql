-- Those about whose spans there are results, or sums of results whose traces are gone; "" stands for nobody.
SELECT tenant FROM evaluation
UNION
SELECT tenant FROM evaluation_day
ORDER BY tenant
LIMIT $limit;
