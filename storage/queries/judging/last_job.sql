-- The number of the last job.
SELECT last_job FROM matching_state;
