-- Return the names and kinds of a service's spans; if there are many, those with most spans.
SELECT "name", kind
FROM (
    SELECT "name", kind, count(*) AS spans
    FROM span
    WHERE ($tenant IS NULL OR tenant IN ($tenant, '')) AND service_name = $service
    GROUP BY "name", kind
    ORDER BY spans DESC, "name", kind
    LIMIT $most
)
ORDER BY "name", kind;
