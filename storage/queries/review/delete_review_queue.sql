-- Delete a queue, if it has the version that was looked at; the id, if so.
DELETE FROM review_queue WHERE queue_id = $queue_id AND "version" = $version RETURNING queue_id;
