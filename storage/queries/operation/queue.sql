-- How many evaluations are to be made, by state, and when the oldest of them was asked for; and how many traces have not
-- settled.
SELECT became, count(*), epoch_ns(min(created_at))
FROM (
    SELECT
        CASE WHEN "state" = 'ready' AND not_before > make_timestamp($now_us::BIGINT) THEN 'waiting' ELSE "state" END AS became,
        created_at
    FROM job
)
GROUP BY became
UNION ALL
SELECT 'open', count(DISTINCT tenant || trace_id), epoch_ns(min(first_at)) FROM trace_open;
