-- Every stored span, one row each, and what it means: that follows its commit, within a second on an idle machine.
CREATE OR REPLACE VIEW spans AS
SELECT
    s.tenant,
    s.trace_id,
    s.span_id,
    s.parent_span_id,
    s.name,
    CASE s.kind
        WHEN 1 THEN 'INTERNAL'
        WHEN 2 THEN 'SERVER'
        WHEN 3 THEN 'CLIENT'
        WHEN 4 THEN 'PRODUCER'
        WHEN 5 THEN 'CONSUMER'
        ELSE 'UNSPECIFIED'
    END AS kind,
    s.service_name,
    s.project,
    s.start_time,
    CASE WHEN epoch_ns(s.end_time) <> 0 THEN s.end_time END AS end_time,
    CASE
        WHEN epoch_ns(s.end_time) <> 0 AND epoch_ns(s.start_time) <> 0
            THEN (epoch_ns(s.end_time)::HUGEINT - epoch_ns(s.start_time)) / 1e6
    END AS duration_ms,
    CASE s.status_code WHEN 1 THEN 'OK' WHEN 2 THEN 'ERROR' ELSE 'UNSET' END AS status_code,
    s.status_message,
    s.attributes,
    r.attributes AS resource_attributes,
    c.name AS scope_name,
    c.version AS scope_version,
    c.attributes AS scope_attributes,
    s.events,
    s.links,
    s.trace_state,
    s.flags,
    s.dropped_attributes_count,
    s.dropped_events_count,
    s.dropped_links_count,
    r.schema_url AS resource_schema_url,
    c.schema_url AS scope_schema_url,
    s.received_at,
    s.attribute_types,
    m.span_type,
    m.dialect,
    coalesce(
        m.input,
        s.attributes[m.input_key],
        TRY(json_extract_string(coalesce(m.input_messages, s.attributes[m.input_messages_key]), m.input_path))
    ) AS input,
    coalesce(
        m.output,
        s.attributes[m.output_key],
        TRY(json_extract_string(coalesce(m.output_messages, s.attributes[m.output_messages_key]), m.output_path))
    ) AS output,
    coalesce(m.input_messages, s.attributes[m.input_messages_key]) AS input_messages,
    coalesce(m.output_messages, s.attributes[m.output_messages_key]) AS output_messages,
    m.tool_name,
    m.tool_call_id,
    coalesce(m.tool_arguments, s.attributes[m.tool_arguments_key]) AS tool_arguments,
    coalesce(m.tool_result, s.attributes[m.tool_result_key]) AS tool_result,
    m.tool_definitions,
    m.model,
    m.provider,
    m.input_tokens,
    m.output_tokens,
    m.cached_tokens,
    m.reasoning_tokens,
    m.cost_usd,
    m.session_id,
    m.user_id,
    m.error,
    m.error_type,
    m.notes,
    s.seq
FROM span AS s
LEFT JOIN resource AS r ON r.resource_id = s.resource_id
LEFT JOIN scope AS c ON c.scope_id = s.scope_id
-- That `seq` is not negative says nothing but how many readings DuckDB expects: fewer than spans, so that it keeps in memory
-- what was read, and not the attributes of every span. Searching the inputs of 152,000 spans took 170 MiB, and takes 24.
LEFT JOIN reading AS m ON m.seq = s.seq AND m.seq >= 0;
