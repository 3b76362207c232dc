-- How many jobs there are in each state, how many of them an attempt has failed already, and when the oldest was made.
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
