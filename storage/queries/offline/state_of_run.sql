-- Return the state of a run, whatever evaluations of it are open.
SELECT "state" FROM run WHERE run_id = $run_id;
