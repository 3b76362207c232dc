-- Return the progress of each reviewer in a queue, by name.
WITH votes AS (
    SELECT author, count(*) AS votes FROM review_vote WHERE queue_id = $queue_id GROUP BY author
),
turns AS (
    SELECT
        author,
        count(*) FILTER (WHERE "state" = 'skipped') AS skipped,
        count(*) FILTER (WHERE "state" = 'leased' AND leased_until > make_timestamp($now_us::BIGINT)) AS leased
    FROM review_turn
    WHERE queue_id = $queue_id
    GROUP BY author
)
SELECT
    coalesce(v.author, t.author) AS author,
    coalesce(v.votes, 0) AS votes,
    coalesce(t.skipped, 0) AS skipped,
    coalesce(t.leased, 0) AS leased
FROM votes AS v
FULL JOIN turns AS t ON t.author = v.author
ORDER BY author
LIMIT 1000;
