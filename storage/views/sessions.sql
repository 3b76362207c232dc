-- Sessions, one row for each project in which a session has traces. The session of a trace is known once the trace is
-- aggregated.
CREATE OR REPLACE VIEW sessions AS
SELECT
    t.tenant,
    t.project,
    t.session_id,
    arg_min(t.service_name, t.start_time) AS service_name,
    arg_min(t.user_id, t.start_time) AS user_id,
    min(t.start_time) AS start_time,
    max(greatest(t.last_start_time, t.end_time)) AS last_time,
    CASE
        WHEN epoch_ns(min(t.start_time)) <> 0
            THEN (epoch_ns(max(greatest(t.last_start_time, t.end_time)))::HUGEINT - epoch_ns(min(t.start_time))) / 1e6
    END AS duration_ms,
    count(*) AS trace_count,
    count(*) FILTER (WHERE t.error_count > 0) AS error_trace_count,
    sum(t.span_count)::BIGINT AS span_count,
    sum(t.error_count)::BIGINT AS error_count,
    TRY_CAST(sum(t.input_tokens) AS BIGINT) AS input_tokens,
    TRY_CAST(sum(t.output_tokens) AS BIGINT) AS output_tokens,
    sum(t.cost_usd) AS cost_usd,
    sum(t.tool_call_count)::BIGINT AS tool_call_count,
    sum(t.summed_span_count)::BIGINT AS summed_span_count
FROM trace_totals AS t
WHERE t.session_id IS NOT NULL
GROUP BY t.tenant, t.project, t.session_id;
