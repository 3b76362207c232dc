-- How many jobs there are in each state, and when the oldest of them was made.
SELECT
    CASE
        WHEN "state" = 'ready' AND not_before > make_timestamp($now_us) THEN 'waiting'
        ELSE "state"
    END AS "state",
    count(*) AS jobs,
    min(created_at) AS oldest
FROM job
GROUP BY ALL;
