-- Return the services that sent spans, by name; if there are many, those with the most spans.
SELECT service_name
FROM (
    SELECT service_name, count(*) AS spans
    FROM span
    WHERE ($tenant IS NULL OR tenant IN ($tenant, '')) AND service_name <> ''
    GROUP BY service_name
    ORDER BY spans DESC, service_name
    LIMIT $most
)
ORDER BY service_name;
