-- Delete the annotations of the items of a run.
DELETE FROM annotation WHERE run_id = $run_id;
