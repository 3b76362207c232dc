-- Return the sums of the selected traces that rules read, and whether they are complete.
WITH parts AS MATERIALIZED (
    SELECT w.trace, p.start_time, p.end_time, p.span_count, p.error_count, p.batch
    FROM trace_part AS p
    INNER JOIN wanted_traces AS w
        ON w.trace_key = p.trace_key AND w.tenant = p.tenant AND w.trace_id = p.trace_id
),
rolled AS (
    SELECT
        trace,
        sum(span_count)::BIGINT AS span_count,
        sum(error_count)::BIGINT AS error_count,
        min(start_time) AS start_time,
        max(end_time) AS end_time,
        max(batch) AS last_batch
    FROM parts
    GROUP BY trace
),
meant AS (
    SELECT w.trace, m.span_count, m.tool_call_count, m.input_tokens, m.output_tokens, m.cost_usd
    FROM trace_reading AS m
    INNER JOIN wanted_traces AS w
        ON w.trace_key = m.trace_key AND w.tenant = m.tenant AND w.trace_id = m.trace_id
)
SELECT
    r.trace,
    r.span_count::DOUBLE AS trace_span_count,
    r.error_count::DOUBLE AS trace_error_count,
    m.tool_call_count::DOUBLE AS trace_tool_call_count,
    CASE
        WHEN epoch_ns(r.start_time) <> 0
            THEN (epoch_ns(r.end_time)::HUGEINT - epoch_ns(r.start_time)) / 1e6
    END AS trace_duration_ms,
    m.input_tokens::DOUBLE AS trace_input_tokens,
    m.output_tokens::DOUBLE AS trace_output_tokens,
    m.cost_usd AS trace_cost_usd,
    coalesce(m.span_count >= r.span_count, false)
        OR r.last_batch <= (SELECT batch FROM trace_state) AS is_added_up
FROM rolled AS r
LEFT JOIN meant AS m ON m.trace = r.trace;
