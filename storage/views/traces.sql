-- Every trace, one row each: named by its root span, or by its first span while no root has come.
CREATE OR REPLACE VIEW traces AS
SELECT
    t.tenant,
    t.trace_id,
    t.root_name,
    t.project,
    t.service_name,
    t.start_time,
    t.end_time,
    CASE
        WHEN epoch_ns(t.start_time) <> 0
            THEN (epoch_ns(t.end_time)::HUGEINT - epoch_ns(t.start_time)) / 1e6
    END AS duration_ms,
    t.span_count,
    t.error_count,
    t.expires_at,
    m.input,
    m.output,
    m.final_response,
    m.session_id,
    m.user_id,
    m.input_tokens,
    m.output_tokens,
    m.cost_usd,
    m.tool_call_count
FROM trace_roll_up AS t
LEFT JOIN trace_reading AS m ON m.tenant = t.tenant AND m.trace_id = t.trace_id;
