-- Return the models and releases of the spans of matching traces, with the number of the trace for each such span. If
-- the search has a condition on spans (see `traces_like`), only spans that meet it count.
WITH resources AS MATERIALIZED ( -- attribute
    SELECT DISTINCT resource_attributes AS told -- attribute
    FROM span -- attribute
    WHERE start_time > make_timestamp_ns($floor_ns) AND start_time <= make_timestamp_ns($latest_ns) -- attribute
        AND batch BETWEEN $first_batch AND $last_batch -- attribute
) -- attribute
SELECT s.model, s.service_version AS release, list(f.number) AS numbers
FROM span AS s
JOIN found_traces AS f ON f.trace_id = s.trace_id AND f.tenant = s.tenant
WHERE s.start_time > make_timestamp_ns($floor_ns) AND s.start_time <= make_timestamp_ns($latest_ns)
    AND s.batch BETWEEN $first_batch AND $last_batch
    AND (s.model <> '' OR s.service_version <> '')
    AND s.model = $model -- model
    AND s.name = $failing AND s.status_code = 2 -- failing
    AND s.service_version = $release -- release
    AND coalesce(s.attributes[$key] = $value, s.resource_attributes IN (SELECT told FROM resources WHERE (told::JSON::MAP(VARCHAR, VARCHAR))[$key] = $value), false) -- attribute
GROUP BY ALL;
