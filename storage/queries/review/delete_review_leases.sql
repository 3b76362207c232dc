-- Take back what a reviewer was given to look at in a queue.
DELETE FROM review_turn WHERE queue_id = $queue_id AND author = $author AND "state" = 'leased';
