-- Note what a gate said of a run.
UPDATE run SET verdict = $verdict WHERE run_id = $run_id RETURNING run_id;
