-- Return the sums of sessions over the selected rows, and the input of their first trace. Trace parts are searched by
-- key alone, and only inputs of first traces are read.
WITH parts AS MATERIALIZED (
    SELECT
        tenant,
        trace_id,
        start_time,
        last_start_time,
        end_time,
        root_start_time,
        root_project,
        first_project,
        span_count,
        error_count
    FROM trace_part
    WHERE rowid IN (
        SELECT p.rowid
        FROM trace_part AS p
        SEMI JOIN session_rows AS t ON t.trace_key = p.trace_key
    )
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
), summed AS MATERIALIZED (
    SELECT
        t.tenant,
        t.session_id,
        list_sort(list(DISTINCT r.project)) AS projects,
        arg_min(t.user_id, t.start_time) AS user_id,
        arg_min(t.place, t.start_time) AS first_place,
        epoch_ns(min(t.start_time)) AS start_ns,
        epoch_ns(max(greatest(t.start_time, r.last_time))) AS last_ns,
        count(*) AS trace_count,
        count(*) FILTER (WHERE r.error_count > 0) AS error_trace_count,
        coalesce(sum(r.span_count), 0)::BIGINT AS span_count,
        coalesce(sum(r.error_count), 0)::BIGINT AS error_count,
        TRY_CAST(sum(t.input_tokens) AS BIGINT) AS input_tokens,
        TRY_CAST(sum(t.output_tokens) AS BIGINT) AS output_tokens,
        sum(t.cost_usd) AS cost_usd,
        sum(t.tool_call_count)::BIGINT AS tool_call_count,
        coalesce(sum(t.span_count), 0)::BIGINT AS summed_span_count
    FROM session_rows AS t
    LEFT JOIN rolled AS r ON r.tenant = t.tenant AND r.trace_id = t.trace_id
    GROUP BY t.tenant, t.session_id
), first_inputs AS (
    SELECT rowid AS place, left("input", $characters) AS first_input
    FROM trace_reading
    WHERE rowid IN (SELECT first_place FROM summed)
)
SELECT s.* EXCLUDE (first_place), f.first_input
FROM summed AS s
LEFT JOIN first_inputs AS f ON f.place = s.first_place;
