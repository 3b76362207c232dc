-- Return the traces with a matching span, latest span start first. A filter that is NULL matches all. A tag is an
-- attribute of the span, else of its resource.
SELECT s.trace_id
FROM span AS s
WHERE ($tenant IS NULL OR s.tenant IN ($tenant, ''))
    AND s.start_time BETWEEN make_timestamp_ns($from_ns) AND make_timestamp_ns($to_ns)
    AND ($service IS NULL OR s.service_name = $service)
    AND ($operation IS NULL OR s.name = $operation)
    AND ($kind IS NULL OR s.kind = $kind)
    AND ($is_error IS NULL OR (s.status_code = 2) = $is_error)
    AND ($least_ns IS NULL OR epoch_ns(s.end_time)::HUGEINT - epoch_ns(s.start_time) >= $least_ns)
    AND ($most_ns IS NULL OR epoch_ns(s.end_time)::HUGEINT - epoch_ns(s.start_time) <= $most_ns)
    AND coalesce(s.attributes[$key] = $text, (s.resource_attributes::JSON::MAP(VARCHAR, VARCHAR))[$key] = $text, false) -- a line for each tag
GROUP BY s.trace_id
ORDER BY max(s.start_time) DESC, s.trace_id
LIMIT $traces;
