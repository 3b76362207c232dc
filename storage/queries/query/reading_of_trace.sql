-- Return the reading of one trace, with its displayed texts.
SELECT
    "input",
    "output",
    final_response,
    finish_reason,
    session_id,
    user_id,
    input_tokens,
    output_tokens,
    cost_usd,
    span_count AS summed_span_count
FROM trace_reading
WHERE start_time = make_timestamp_ns($start_ns)
    AND trace_id = $trace_id
    AND tenant = $tenant;
