-- The numbers of the wanted spans that came before one, which start between two instants and came with the commits between
-- two numbers.
SELECT DISTINCT seq
FROM span
SEMI JOIN wanted_spans USING (tenant, trace_id, span_id)
WHERE start_time BETWEEN make_timestamp_ns($from_ns) AND make_timestamp_ns($to_ns)
    AND batch BETWEEN $first_batch AND $last_batch
    AND seq < $before
ORDER BY seq;
