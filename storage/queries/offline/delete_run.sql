-- Delete a run.
DELETE FROM run WHERE run_id = $run_id;
