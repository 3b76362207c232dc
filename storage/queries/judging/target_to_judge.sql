-- Return the number and project under which a span, or without a span id a trace, is evaluated: those of its last span
-- and root. Also returns whether the trace is open, and the arrival times of its spans.
SELECT
    max(s.seq) AS seq,
    coalesce(arg_min(s.project, s.start_time) FILTER (WHERE s.parent_span_id IS NULL), arg_min(s.project, s.start_time)) AS project,
    (SELECT count(*) > 0 FROM trace_open AS o WHERE o.tenant = $tenant AND o.trace_id = $trace_id) AS is_open,
    epoch_ns(min(s.received_at)) AS first_arrival_ns,
    epoch_ns(max(s.received_at)) AS last_arrival_ns
FROM span AS s
WHERE s.seq BETWEEN $first_seq AND $last_seq
    AND s.tenant = $tenant
    AND s.trace_id = $trace_id
    AND ($span_id::VARCHAR IS NULL OR s.span_id = $span_id)
HAVING count(*) > 0;
