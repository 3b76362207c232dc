-- Release the entries of a queue that a reviewer holds.
DELETE FROM review_turn WHERE queue_id = $queue_id AND author = $author AND "state" = 'leased';
