-- How many items a run has, each trial one.
SELECT count(*) FROM run_item WHERE run_id = $run_id;
