-- Find the spans whose texts match a pattern: return the ids of those of one trace, or the traces that have such a span
-- and a part in a stretch of time. A line that ends with a name is kept only for that question. The commits of these
-- traces are joined so that DuckDB skips all other rows before it reads their texts: those of long traces may be far
-- apart.
SELECT s.span_id -- of_trace
SELECT DISTINCT s.tenant, s.trace_id -- of_traces
FROM span AS s
SEMI JOIN ( -- of_traces
    SELECT trace_id, batch -- of_traces
    FROM trace_part -- of_traces
    WHERE start_time > make_timestamp_ns($floor_ns) -- of_traces
        AND trace_key IN ( -- of_traces
            SELECT trace_key -- of_traces
            FROM trace_part -- of_traces
            WHERE start_time > make_timestamp_ns($floor_ns) AND start_time <= make_timestamp_ns($until_ns) -- of_traces
        ) -- of_traces
) AS near ON near.trace_id = s.trace_id AND near.batch = s.batch -- of_traces
WHERE s.batch BETWEEN $first_batch AND $last_batch
    AND s.start_time > make_timestamp_ns($floor_ns) AND s.start_time <= make_timestamp_ns($latest_ns) -- of_traces
    AND ($tenant IS NULL OR s.tenant IN ($tenant, '')) -- of_traces
    AND s.start_time BETWEEN make_timestamp_ns($from_ns) AND make_timestamp_ns($to_ns) -- of_trace
    AND s.tenant = $tenant AND s.trace_id = $trace_id -- of_trace
    AND (
        regexp_matches(s.name, $text)
        OR regexp_matches(s.status_message, $text)
        OR regexp_matches(s.error, $text)
        OR regexp_matches(s.input, $text)
        OR regexp_matches(s.output, $text)
        OR regexp_matches(s.input_messages, $text)
        OR regexp_matches(s.output_messages, $text)
        OR regexp_matches(s.tool_name, $text)
        OR regexp_matches(s.tool_arguments, $text)
        OR regexp_matches(s.tool_result, $text)
        OR regexp_matches(s.resource_attributes, $text)
        OR len(list_filter(map_values(s.attributes), lambda value: regexp_matches(value, $text))) > 0
        OR len(list_filter(s.events, lambda event: regexp_matches(event.name, $text)
            OR len(list_filter(map_values(event.attributes), lambda value: regexp_matches(value, $text))) > 0
        )) > 0
        OR starts_with(s.trace_id, $text_id) OR starts_with(s.span_id, $text_id) -- text_id
    );
