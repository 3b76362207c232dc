-- Take the items of a run out of all queues.
DELETE FROM review_entry WHERE run_id = $run_id;
