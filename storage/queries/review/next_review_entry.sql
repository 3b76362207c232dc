-- Return the entry that a reviewer handles next: the one already held, else the first with room.
WITH votes AS (
    SELECT entry_id, author, decides FROM review_vote WHERE queue_id = $queue_id
),
taken AS (
    SELECT entry_id, author FROM votes WHERE decides
    UNION
    SELECT entry_id, author
    FROM review_turn
    WHERE queue_id = $queue_id
        AND "state" = 'leased'
        AND leased_until > make_timestamp($now_us::BIGINT)
        -- A later end is of before the clock was set back; requests are carried out within a minute of the time that they read.
        AND leased_until <= make_timestamp($now_us::BIGINT + $lease_us::BIGINT + 60000000)
),
sums AS (
    SELECT entry_id, count(*) AS taken, bool_or(author = $author) AS is_mine FROM taken GROUP BY entry_id
)
SELECT e.entry_id
FROM review_entry AS e
LEFT JOIN sums AS s ON s.entry_id = e.entry_id
WHERE e.queue_id = $queue_id
    AND e.entry_id NOT IN (SELECT entry_id FROM votes WHERE author = $author)
    AND e.entry_id NOT IN (
        SELECT entry_id FROM review_turn WHERE queue_id = $queue_id AND author = $author AND "state" = 'skipped'
    )
    AND (coalesce(s.is_mine, false) OR coalesce(s.taken, 0) < $reviewers)
ORDER BY coalesce(s.is_mine, false) DESC, CASE WHEN $blind THEN e.entry_id END, e.number
LIMIT 1;
