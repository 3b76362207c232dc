-- Return the different resources of the first $spans spans of a trace, at most $resources; bounds as in `spans_of_trace`.
SELECT DISTINCT resource_attributes, resource_meta
FROM (
    SELECT resource_attributes, resource_meta
    FROM span
    WHERE tenant = $tenant
        AND trace_id = $trace_id
        AND start_time BETWEEN make_timestamp_ns($from_ns) AND make_timestamp_ns($to_ns)
        AND batch BETWEEN $first_batch AND $last_batch
    LIMIT $spans
)
LIMIT $resources;
