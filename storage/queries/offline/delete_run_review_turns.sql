-- Delete the review turns of the items of a run.
DELETE FROM review_turn WHERE entry_id IN (SELECT entry_id FROM review_entry WHERE run_id = $run_id);
