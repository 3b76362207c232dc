-- Save the verdict of a gate on a run.
UPDATE run SET verdict = $verdict WHERE run_id = $run_id RETURNING run_id;
