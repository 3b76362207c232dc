-- Return the first $spans spans of one trace with their short columns; bounds as in `spans_of_trace`.
SELECT
    s.span_id,
    s.parent_span_id,
    s.name,
    epoch_ns(s.start_time) AS start_ns,
    epoch_ns(s.end_time) AS end_ns,
    s.status_code = 2 AS is_error,
    coalesce(s.span_type, 'other') AS span_type,
    s.span_type IS NOT NULL AS is_read,
    s.model,
    s.tool_name,
    s.input_tokens,
    s.output_tokens,
    s.cost_usd,
    CASE WHEN contains(s.notes, 'content is not captured') THEN s.notes END AS uncaptured
FROM span AS s
WHERE s.tenant = $tenant
    AND s.trace_id = $trace_id
    AND s.start_time BETWEEN make_timestamp_ns($from_ns) AND make_timestamp_ns($to_ns)
    AND s.batch BETWEEN $first_batch AND $last_batch
ORDER BY s.start_time, s.span_id
LIMIT $spans;
