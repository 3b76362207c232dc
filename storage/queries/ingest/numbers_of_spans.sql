-- Return the numbers of selected spans, and of spans with selected tool calls, before a number. They start between two
-- instants and belong to the commits between two numbers.
WITH candidate AS (
    SELECT seq, tenant, trace_id, span_id, tool_call_id
    FROM span
    WHERE start_time BETWEEN make_timestamp_ns($from_ns) AND make_timestamp_ns($to_ns)
        AND batch BETWEEN $first_batch AND $last_batch
        AND seq < $before
)
SELECT seq
FROM candidate
SEMI JOIN wanted_spans USING (tenant, trace_id, span_id)
UNION
SELECT seq
FROM candidate
SEMI JOIN wanted_calls USING (tenant, trace_id, tool_call_id)
ORDER BY seq;
