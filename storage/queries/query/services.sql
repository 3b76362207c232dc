-- The services that sent spans.
SELECT DISTINCT service_name
FROM span
WHERE ($tenant IS NULL OR tenant IN ($tenant, '')) AND service_name <> ''
ORDER BY service_name;
