-- Delete a reviewer's turn on an entry.
DELETE FROM review_turn WHERE queue_id = $queue_id AND entry_id = $entry_id AND author = $author;
