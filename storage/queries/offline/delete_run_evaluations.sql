-- Delete the evaluations of a run.
DELETE FROM run_evaluation WHERE run_id = $run_id;
