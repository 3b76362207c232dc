-- Delete entries of a queue (NULL: all), and return their ids.
DELETE FROM review_entry
WHERE queue_id = $queue_id AND ($entry_id::VARCHAR IS NULL OR entry_id = $entry_id)
RETURNING entry_id;
