-- Traces, one row each, named by their root span, or by their first span until the root arrives.
CREATE OR REPLACE VIEW traces AS
SELECT
    tenant,
    trace_id,
    root_name,
    project,
    service_name,
    start_time,
    end_time,
    CASE
        WHEN epoch_ns(start_time) <> 0
            THEN (epoch_ns(end_time)::HUGEINT - epoch_ns(start_time)) / 1e6
    END AS duration_ms,
    span_count,
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
    summed_span_count,
    finish_reason
FROM trace_totals;
