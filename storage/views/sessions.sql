-- Every session, one row for each project in which it has traces. Traces tell their session once they are added up.
CREATE OR REPLACE VIEW sessions AS
WITH told AS (
    SELECT tenant, trace_id, session_id, user_id, input_tokens, output_tokens, cost_usd, tool_call_count
    FROM trace_reading
    WHERE session_id IS NOT NULL
), of_sessions AS (
    SELECT p.*
    FROM trace_part AS p
    SEMI JOIN told AS t ON t.tenant = p.tenant AND t.trace_id = p.trace_id
), rolled AS (
    SELECT
        tenant,
        trace_id,
        coalesce(arg_min(root_project, root_start_time), arg_min(first_project, start_time)) AS project,
        coalesce(arg_min(root_service_name, root_start_time), arg_min(first_service_name, start_time)) AS service_name,
        min(start_time) AS start_time,
        max(last_start_time) AS last_start_time,
        max(end_time) AS end_time,
        sum(span_count)::BIGINT AS span_count,
        sum(error_count)::BIGINT AS error_count
    FROM of_sessions
    GROUP BY tenant, trace_id
)
SELECT
    t.tenant,
    r.project,
    t.session_id,
    arg_min(r.service_name, r.start_time) AS service_name,
    arg_min(t.user_id, r.start_time) AS user_id,
    min(r.start_time) AS start_time,
    max(greatest(r.last_start_time, r.end_time)) AS last_time,
    CASE
        WHEN epoch_ns(min(r.start_time)) <> 0
            THEN (epoch_ns(max(greatest(r.last_start_time, r.end_time)))::HUGEINT - epoch_ns(min(r.start_time))) / 1e6
    END AS duration_ms,
    count(*) AS trace_count,
    count(*) FILTER (WHERE r.error_count > 0) AS error_trace_count,
    sum(r.span_count)::BIGINT AS span_count,
    sum(r.error_count)::BIGINT AS error_count,
    sum(t.input_tokens)::BIGINT AS input_tokens,
    sum(t.output_tokens)::BIGINT AS output_tokens,
    sum(t.cost_usd) AS cost_usd,
    sum(t.tool_call_count)::BIGINT AS tool_call_count
FROM rolled AS r
JOIN told AS t ON t.tenant = r.tenant AND t.trace_id = r.trace_id
GROUP BY t.tenant, r.project, t.session_id;
