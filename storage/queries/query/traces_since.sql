-- Count the traces that began since an instant, and those of them with errors, by project and service.
SELECT project, service_name AS service, count(*) AS traces, count(*) FILTER (WHERE error_count > 0) AS failed
FROM trace_totals
WHERE start_time >= make_timestamp_ns($since_ns) AND start_time < make_timestamp_ns($until_ns)
    AND ($tenant::VARCHAR IS NULL OR tenant IN ($tenant, ''))
    AND ($project::VARCHAR IS NULL OR project = $project)
GROUP BY project, service_name
ORDER BY failed DESC, traces DESC, project, service;
