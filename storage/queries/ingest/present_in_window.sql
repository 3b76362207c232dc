-- Return the incoming keys that are already stored, among spans that start between two instants and have numbers below
-- $before.
SELECT DISTINCT s.tenant, s.trace_id, s.span_id
FROM span AS s
SEMI JOIN incoming_keys AS k USING (tenant, trace_id, span_id)
WHERE s.start_time BETWEEN make_timestamp_ns($from_ns) AND make_timestamp_ns($to_ns) AND s.seq < $before;
