-- Return the traces that commits after the aggregated ones changed, from their parts and log records, with the first
-- of these commits and the number of their spans.
SELECT tenant, trace_id, min(batch), sum(spans)::BIGINT
FROM (
    SELECT tenant, trace_id, batch, span_count AS spans
    FROM trace_part
    WHERE batch > (SELECT batch FROM trace_state)
    UNION ALL
    SELECT tenant, trace_id, batch, 1
    FROM log_record
    WHERE batch > (SELECT batch FROM trace_state) AND event_name <> 'gen_ai.evaluation.result'
)
GROUP BY tenant, trace_id;
