-- Advance the number of the last job by the numbers used.
UPDATE matching_state SET last_job = last_job + $jobs;
