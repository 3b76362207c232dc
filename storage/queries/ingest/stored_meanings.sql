-- Return fields of spans for test cases; another statement selects the spans from the table `span`. Spans that another
-- edition read, or that only announce a span, are incomplete.
WITH these AS (
    $these
)
SELECT
    s.tenant,
    s.trace_id,
    s.span_id,
    s.parent_span_id,
    s.start_time,
    s.end_time,
    coalesce(s.span_type, 'other') AS span_type,
    s.input,
    s."output",
    coalesce(s.input_messages, s.attributes[s.input_messages_key]) AS input_messages,
    coalesce(s.output_messages, s.attributes[s.output_messages_key]) AS output_messages,
    s.tool_name,
    s.tool_call_id,
    coalesce(s.tool_arguments, s.attributes[s.tool_arguments_key]) AS tool_arguments,
    coalesce(s.tool_result, s.attributes[s.tool_result_key]) AS tool_result,
    s.tool_result_is_text,
    s.tool_definitions,
    s.response_id,
    s.model,
    s.scope_name,
    s.input_tokens,
    s.output_tokens,
    s.cached_tokens,
    s.finish_reason,
    s.cost_usd,
    s.cost_source,
    s.output_is_answer,
    s.notes,
    s.session_id,
    s.user_id,
    s.error,
    s.error_type,
    e.digest IS NOT NULL AND s.pending IS NOT TRUE AS is_complete
FROM these AS s
LEFT JOIN edition AS e ON e.edition = s.edition AND e.digest = $edition
LIMIT $rows;
