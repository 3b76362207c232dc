-- Return the spans of the selected traces up to a number. The spans start between two instants and belong to the
-- commits between two numbers. The row id tells how far spans lie apart.
SELECT
    w.trace,
    s.seq,
    s.rowid AS place,
    s.parent_span_id IS NULL AND epoch_ns(s.end_time) <> 0 AS is_ended_root,
    s.parent_span_id IS NOT NULL AS is_child,
    s.start_time,
    s.session_id
FROM span AS s
INNER JOIN wanted_traces AS w ON w.tenant = s.tenant AND w.trace_id = s.trace_id
WHERE s.start_time BETWEEN make_timestamp_ns($from_ns) AND make_timestamp_ns($to_ns)
    AND s.batch BETWEEN $first_batch AND $last_batch
    AND s.seq <= $until
ORDER BY s.seq;
