-- What the spans of a service are called, and of which kind they are: of many those with most spans.
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
