-- Return the fields of the spans of the selected traces. The spans start between two instants and belong to the
-- commits between two numbers.
SELECT
    tenant,
    trace_id,
    span_id,
    parent_span_id,
    start_time,
    end_time,
    coalesce(span_type, 'other') AS span_type,
    input,
    "output",
    coalesce(input_messages, attributes[input_messages_key]) AS input_messages,
    coalesce(output_messages, attributes[output_messages_key]) AS output_messages,
    tool_name,
    tool_call_id,
    coalesce(tool_arguments, attributes[tool_arguments_key]) AS tool_arguments,
    coalesce(tool_result, attributes[tool_result_key]) AS tool_result,
    response_id,
    model,
    scope_name,
    input_tokens,
    output_tokens,
    finish_reason,
    cost_usd,
    cost_source,
    session_id,
    user_id,
    error,
    error_type,
    output_is_answer,
    pending,
    coalesce(edition, 0) AS edition
FROM span
SEMI JOIN wanted_traces USING (tenant, trace_id)
WHERE start_time BETWEEN make_timestamp_ns($from_ns) AND make_timestamp_ns($to_ns)
    AND batch BETWEEN $first_batch AND $last_batch
LIMIT $rows;
