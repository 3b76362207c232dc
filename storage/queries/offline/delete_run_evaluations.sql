-- Delete what was asked about a run.
DELETE FROM run_evaluation WHERE run_id = $run_id;
