-- Return the root of each selected trace, or its first span while no root has arrived. The spans start between two
-- instants and belong to the commits between two numbers.
SELECT
    tenant,
    trace_id,
    coalesce(arg_min(span_id, start_time) FILTER (WHERE parent_span_id IS NULL), arg_min(span_id, start_time)) AS span_id
FROM span
SEMI JOIN wanted_traces USING (tenant, trace_id)
WHERE start_time BETWEEN make_timestamp_ns($from_ns) AND make_timestamp_ns($to_ns)
    AND batch BETWEEN $first_batch AND $last_batch
GROUP BY tenant, trace_id;
