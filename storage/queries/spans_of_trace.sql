-- The first $spans spans of one trace, which start between two instants and came with the commits between two numbers,
-- by start time, with their resources and scopes. Row groups hold few commits each, but overlap in time.
SELECT
    s.tenant,
    s.trace_id,
    s.span_id,
    s.parent_span_id,
    s.name,
    s.kind,
    epoch_ns(s.start_time) AS start_ns,
    epoch_ns(s.end_time) AS end_ns,
    s.status_code,
    s.status_message,
    s.attributes,
    s.attribute_types,
    [{
        time_ns: epoch_ns(e."time"),
        name: e.name,
        attributes: e.attributes,
        attribute_types: e.attribute_types,
        dropped_attributes_count: e.dropped_attributes_count
    } FOR e IN s.events] AS events,
    s.links,
    s.trace_state,
    s.flags,
    s.dropped_attributes_count,
    s.dropped_events_count,
    s.dropped_links_count,
    s.project,
    s.service_name,
    r AS resource,
    c AS scope
FROM span AS s
LEFT JOIN resource AS r ON r.resource_id = s.resource_id
LEFT JOIN scope AS c ON c.scope_id = s.scope_id
WHERE s.tenant = $tenant
    AND s.trace_id = $trace_id
    AND s.start_time BETWEEN make_timestamp_ns($from_ns) AND make_timestamp_ns($to_ns)
    AND s.batch BETWEEN $first_batch AND $last_batch
ORDER BY s.start_time, s.span_id
LIMIT $spans;
