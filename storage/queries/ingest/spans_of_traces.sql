-- Return the spans of the selected traces. The spans start between two instants and belong to the
-- commits between two numbers.
SELECT *
FROM span
SEMI JOIN wanted_traces USING (tenant, trace_id)
WHERE start_time BETWEEN make_timestamp_ns($from_ns) AND make_timestamp_ns($to_ns)
    AND batch BETWEEN $first_batch AND $last_batch
LIMIT $rows;
