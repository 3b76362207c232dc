-- Return the numbers of the spans that determine the input and output of the selected traces. These are the roots and
-- the first and last spans of each trace; the first and the last trace come first. Bounds as in `spans_of_traces`. At
-- most $most spans of a trace are read, as in the view. The order depends on the spans alone.
WITH placed AS (
    SELECT
        tenant,
        trace_id,
        seq,
        start_time,
        parent_span_id IS NULL AS is_root,
        row_number() OVER (
            PARTITION BY tenant, trace_id ORDER BY parent_span_id IS NOT NULL, start_time, end_time DESC, span_id
        ) AS place
    FROM span
    SEMI JOIN wanted_traces USING (tenant, trace_id)
    WHERE start_time BETWEEN make_timestamp_ns($from_ns) AND make_timestamp_ns($to_ns)
        AND batch BETWEEN $first_batch AND $last_batch
    QUALIFY place <= $most
), counted AS (
    SELECT
        *,
        least(place, count(*) OVER (PARTITION BY tenant, trace_id) - place) AS from_end,
        min(start_time) OVER (PARTITION BY tenant, trace_id) AS began
    FROM placed
)
SELECT seq
FROM counted
WHERE is_root OR from_end <= $ends
ORDER BY
    from_end,
    least(row_number() OVER (ORDER BY began, trace_id, place), row_number() OVER (ORDER BY began DESC, trace_id DESC, place))
LIMIT $rows;
