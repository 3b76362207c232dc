-- Read the spans of one long trace as `meanings_of_traces` does, but without most texts. The root and the first and
-- last 500 spans keep their texts; others keep output messages that have tool calls. So sums and calls cover all spans,
-- or the roots and the first $rows spans. Parents precede their children, which would be counted twice if the parents
-- were left out.
WITH placed AS MATERIALIZED (
    SELECT seq, row_number() OVER (ORDER BY parent_span_id IS NOT NULL, start_time, end_time DESC, span_id) AS place
    FROM span
    SEMI JOIN wanted_traces USING (tenant, trace_id)
    WHERE start_time BETWEEN make_timestamp_ns($from_ns) AND make_timestamp_ns($to_ns)
        AND batch BETWEEN $first_batch AND $last_batch
    QUALIFY place <= $rows
), marked AS (
    SELECT
        s.*,
        p.place,
        coalesce(s.output_messages, s.attributes[s.output_messages_key]) AS answer,
        s.parent_span_id IS NULL OR p.place <= 500 OR p.place > (SELECT count(*) FROM placed) - 500 AS has_texts
    FROM span AS s
    INNER JOIN placed AS p ON p.seq = s.seq
    WHERE s.start_time BETWEEN make_timestamp_ns($from_ns) AND make_timestamp_ns($to_ns)
        AND s.batch BETWEEN $first_batch AND $last_batch
)
SELECT
    tenant,
    trace_id,
    span_id,
    parent_span_id,
    start_time,
    end_time,
    coalesce(span_type, 'other') AS span_type,
    CASE WHEN has_texts THEN input END AS input,
    CASE WHEN has_texts THEN "output" END AS "output",
    CASE WHEN has_texts THEN coalesce(input_messages, attributes[input_messages_key]) END AS input_messages,
    CASE WHEN has_texts OR contains(answer, '"tool_call') THEN answer END AS output_messages,
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
    CASE WHEN has_texts OR answer IS NULL THEN output_is_answer WHEN contains(answer, '"tool_call') THEN false END AS output_is_answer,
    pending,
    coalesce(edition, 0) AS edition
FROM marked
ORDER BY place;
