-- Count the jobs in each state and those with a failed attempt, and return when the oldest was created.
SELECT
    CASE
        WHEN "state" = 'ready' AND not_before > make_timestamp($now_us) THEN 'waiting'
        ELSE "state"
    END AS "state",
    count(*) AS jobs,
    count(*) FILTER (attempts > 0 OR error_kind IS NOT NULL) AS tried,
    min(created_at) AS oldest
FROM job
GROUP BY ALL;
