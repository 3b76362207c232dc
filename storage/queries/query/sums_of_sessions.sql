-- What the traces of the wanted sessions add up to, and what the first of them was asked.
WITH told AS (
    SELECT r.*
    FROM trace_reading AS r
    SEMI JOIN wanted_sessions USING (tenant, session_id)
), parts AS (
    SELECT p.*
    FROM trace_part AS p
    SEMI JOIN told AS t ON t.trace_key = p.trace_key AND t.tenant = p.tenant AND t.trace_id = p.trace_id
), rolled AS (
    SELECT
        tenant,
        trace_id,
        coalesce(arg_min(root_project, root_start_time), arg_min(first_project, start_time)) AS project,
        max(greatest(last_start_time, end_time)) AS last_time,
        sum(span_count)::BIGINT AS span_count,
        sum(error_count)::BIGINT AS error_count
    FROM parts
    GROUP BY tenant, trace_id
)
SELECT
    t.tenant,
    t.session_id,
    list_sort(list(DISTINCT r.project)) AS projects,
    arg_min(t.user_id, t.start_time) AS user_id,
    left(arg_min(t."input", t.start_time), $characters) AS first_input,
    epoch_ns(min(t.start_time)) AS start_ns,
    epoch_ns(max(greatest(t.start_time, r.last_time))) AS last_ns,
    count(*) AS trace_count,
    count(*) FILTER (WHERE r.error_count > 0) AS error_trace_count,
    coalesce(sum(r.span_count), 0)::BIGINT AS span_count,
    coalesce(sum(r.error_count), 0)::BIGINT AS error_count,
    sum(t.input_tokens)::BIGINT AS input_tokens,
    sum(t.output_tokens)::BIGINT AS output_tokens,
    sum(t.cost_usd) AS cost_usd,
    sum(t.tool_call_count)::BIGINT AS tool_call_count
FROM told AS t
LEFT JOIN rolled AS r ON r.tenant = t.tenant AND r.trace_id = t.trace_id
GROUP BY t.tenant, t.session_id;
