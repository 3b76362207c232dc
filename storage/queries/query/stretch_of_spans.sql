-- Count the spans of the newest trace parts that start at or before an instant, as many as have $parts spans or just
-- more, and return the start of the earliest of them.
SELECT
    coalesce(sum(spans) FILTER (WHERE spans_after < $parts), 0)::BIGINT,
    epoch_ns(min(start_time) FILTER (WHERE spans_after < $parts))
FROM (
    SELECT
        start_time,
        greatest(span_count, 1) AS spans,
        coalesce(
            sum(greatest(span_count, 1)) OVER (ORDER BY start_time DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0
        ) AS spans_after
    FROM (
        SELECT start_time, span_count
        FROM trace_part
        WHERE start_time BETWEEN make_timestamp_ns($from_ns) AND make_timestamp_ns($until_ns)
            AND ($tenant IS NULL OR tenant IN ($tenant, ''))
        ORDER BY start_time DESC
        LIMIT $parts
    )
);
