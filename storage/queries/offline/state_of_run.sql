-- Return whether a run is running.
SELECT "state" = 'RUNNING' FROM run WHERE run_id = $run_id;
