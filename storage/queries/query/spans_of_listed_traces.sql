-- Return the models and releases of the spans of listed traces.
SELECT
    s.tenant,
    s.trace_id,
    coalesce(list_sort(list(DISTINCT s.model) FILTER (WHERE s.model <> '')), []) AS models,
    coalesce(list_sort(list(DISTINCT s.service_version) FILTER (WHERE s.service_version <> '')), []) AS releases
FROM span AS s
WHERE s.trace_id IN (SELECT unnest(string_split($trace_ids, ',')))
    AND s.start_time >= make_timestamp_ns($from_ns)
    AND s.batch BETWEEN $first_batch AND $last_batch
GROUP BY s.tenant, s.trace_id;
