-- What the spans of a service are called, and of which kind they are.
SELECT DISTINCT "name", kind
FROM span
WHERE ($tenant IS NULL OR tenant IN ($tenant, '')) AND service_name = $service
ORDER BY "name", kind;
