-- Record the position of matching and the number of the last job.
UPDATE matching_state SET seq = $seq, last_job = $last_job;
