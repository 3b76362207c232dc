-- Traces, one row each: from the stored aggregates, or from their parts if they changed since. The changed traces are
-- named three times, because a common table expression would make DuckDB read every column for every query.
CREATE OR REPLACE VIEW trace_totals AS
SELECT
    tenant,
    trace_id,
    trace_key,
    root_name,
    project,
    service_name,
    start_time,
    last_start_time,
    end_time,
    stored_span_count AS span_count,
    error_count,
    expires_at,
    "input",
    "output",
    final_response,
    session_id,
    user_id,
    input_tokens,
    output_tokens,
    cost_usd,
    tool_call_count,
    span_count AS summed_span_count,
    finish_reason
FROM trace_reading
ANTI JOIN changed_trace USING (trace_key)
UNION ALL
SELECT
    r.tenant,
    r.trace_id,
    r.trace_key,
    r.root_name,
    r.project,
    r.service_name,
    r.start_time,
    r.last_start_time,
    r.end_time,
    r.span_count,
    r.error_count,
    r.expires_at,
    m."input",
    m."output",
    m.final_response,
    m.session_id,
    m.user_id,
    m.input_tokens,
    m.output_tokens,
    m.cost_usd,
    m.tool_call_count,
    m.span_count AS summed_span_count,
    m.finish_reason
FROM trace_roll_up AS r
LEFT JOIN (
    SELECT *
    FROM trace_reading
    SEMI JOIN changed_trace USING (trace_key)
    OFFSET 0
) AS m ON m.trace_key = r.trace_key AND m.tenant = r.tenant AND m.trace_id = r.trace_id;
