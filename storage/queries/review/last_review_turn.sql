-- Return the last turn of a reviewer in a queue: the entry that was voted on or skipped.
SELECT entry_id, "state"
FROM review_turn
WHERE queue_id = $queue_id AND author = $author AND "state" IN ('voted', 'skipped')
ORDER BY number DESC
LIMIT 1;
