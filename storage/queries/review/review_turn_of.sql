-- Return a reviewer's turn on an entry, and how many others decided it or hold it.
SELECT
    (
        SELECT any_value("state")
        FROM review_turn
        WHERE queue_id = $queue_id AND entry_id = $entry_id AND author = $author
    ) AS "state",
    (
        SELECT count(*) FROM review_vote WHERE queue_id = $queue_id AND entry_id = $entry_id AND author = $author
    ) > 0 AS has_voted,
    (
        SELECT count(DISTINCT author)
        FROM (
            SELECT author FROM review_vote WHERE queue_id = $queue_id AND entry_id = $entry_id AND decides
            UNION ALL
            SELECT author
            FROM review_turn
            WHERE queue_id = $queue_id
                AND entry_id = $entry_id
                AND "state" = 'leased'
                AND leased_until > make_timestamp($now_us::BIGINT)
                -- A later end is of before the clock was set back; requests are carried out within a minute of the time that they read.
                AND leased_until <= make_timestamp($now_us::BIGINT + $lease_us::BIGINT + 60000000)
        )
        WHERE author <> $author
    ) AS others
FROM review_entry
WHERE queue_id = $queue_id AND entry_id = $entry_id;
