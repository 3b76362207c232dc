-- Take entries out of a queue, or with NULL all of them; their ids.
DELETE FROM review_entry
WHERE queue_id = $queue_id AND ($entry_id::VARCHAR IS NULL OR entry_id = $entry_id)
RETURNING entry_id;
