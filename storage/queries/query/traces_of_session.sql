-- Return the latest traces of one session before an instant, latest first, each with its number from 1 and the cost of
-- the session so far.
SELECT
    trace_id,
    epoch_ns(start_time) AS start_ns,
    row_number() OVER earlier AS "number",
    sum(cost_usd) OVER earlier AS cost_so_far_usd
FROM session_rows
WHERE $place_ns::BIGINT IS NULL
    OR epoch_ns(start_time) < $place_ns
    OR (epoch_ns(start_time) = $place_ns AND trace_id < $place_trace)
WINDOW earlier AS (ORDER BY start_time, trace_id ROWS UNBOUNDED PRECEDING)
ORDER BY start_time DESC, trace_id DESC
LIMIT $limit;
