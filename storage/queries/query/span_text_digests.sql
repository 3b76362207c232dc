-- Return hashes of the inputs and outputs of the first $spans spans of one trace. Call ids are left out, because they
-- differ each time. Bounds as in `spans_of_trace`.
SELECT
    s.span_id,
    hash(s.input, s.tool_arguments, regexp_replace(s.input_messages, '"id": ?"[^"]*"', '', 'g')) AS given,
    hash(s.output, s.tool_result, regexp_replace(s.output_messages, '"id": ?"[^"]*"', '', 'g')) AS said
FROM span AS s
WHERE s.tenant = $tenant
    AND s.trace_id = $trace_id
    AND s.start_time BETWEEN make_timestamp_ns($from_ns) AND make_timestamp_ns($to_ns)
    AND s.batch BETWEEN $first_batch AND $last_batch
ORDER BY s.start_time, s.span_id
LIMIT $spans;
