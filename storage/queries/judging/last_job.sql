-- Return the number of the last job.
SELECT last_job FROM matching_state;
