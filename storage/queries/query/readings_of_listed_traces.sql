-- Return the short readings of listed traces.
SELECT
    tenant,
    trace_id,
    left("input", $characters) AS input,
    left("output", $characters) AS output,
    session_id,
    user_id,
    input_tokens,
    output_tokens,
    cost_usd,
    span_count AS summed_span_count
FROM trace_reading
WHERE start_time BETWEEN make_timestamp_ns($from_ns) AND make_timestamp_ns($to_ns)
    AND trace_id IN (SELECT unnest(string_split($trace_ids, ',')));
