-- Return the entries of a queue, or one of them, in the order of insertion, with their progress.
WITH votes AS (
    SELECT
        entry_id,
        count(*) AS votes,
        count(*) FILTER (WHERE decides) AS decided,
        bool_or(author = $author) AS is_mine
    FROM review_vote
    WHERE queue_id = $queue_id
    GROUP BY entry_id
),
leases AS (
    SELECT entry_id, count(*) AS leases
    FROM review_turn
    WHERE queue_id = $queue_id AND "state" = 'leased' AND leased_until > make_timestamp($now_us::BIGINT)
    GROUP BY entry_id
)
SELECT
    e.* EXCLUDE (added_at, write_number),
    epoch_us(e.added_at) AS added_us,
    coalesce(v.votes, 0) AS votes,
    coalesce(l.leases, 0) AS leases,
    coalesce(v.is_mine, false) AS is_mine
FROM review_entry AS e
LEFT JOIN votes AS v ON v.entry_id = e.entry_id
LEFT JOIN leases AS l ON l.entry_id = e.entry_id
WHERE e.queue_id = $queue_id
    AND ($entry_id::VARCHAR IS NULL OR e.entry_id = $entry_id)
    AND ($done::BOOLEAN IS NULL OR $done = (coalesce(v.decided, 0) >= $reviewers))
ORDER BY e.number
LIMIT $rows OFFSET $skip;
