-- The rows of the view `spans` for the spans of one window. The view is asked by its text, so that its join reads the
-- readings of the window alone.
WITH span AS (
    SELECT *
    FROM tracejury.span
    WHERE start_time BETWEEN make_timestamp_ns($first_ns) AND make_timestamp_ns($last_ns)
        AND seq BETWEEN $first_seq AND $last_seq
        AND ($tenant::VARCHAR IS NULL OR tenant IN ($tenant, $or_tenant))
        AND ($trace_id::VARCHAR IS NULL OR trace_id = $trace_id)
),
reading AS (
    SELECT *
    FROM tracejury.reading
    WHERE seq BETWEEN $first_seq AND $last_seq
)
$spans;
