-- Delete the review entries of the items of a run.
DELETE FROM review_entry WHERE run_id = $run_id;
