-- Delete the review turns of entries that are no longer in a queue.
DELETE FROM review_turn
WHERE queue_id = $queue_id AND entry_id NOT IN (SELECT entry_id FROM review_entry WHERE queue_id = $queue_id);
