-- What a reviewer did last in a queue: the entry that he voted on, or left out.
SELECT entry_id, "state"
FROM review_turn
WHERE queue_id = $queue_id AND author = $author AND "state" IN ('voted', 'skipped')
ORDER BY number DESC
LIMIT 1;
