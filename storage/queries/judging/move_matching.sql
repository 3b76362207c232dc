-- Advance the position of matching and the number of the last job, if the position is unchanged.
UPDATE matching_state SET seq = $until, last_job = last_job + $jobs
WHERE seq = $after
RETURNING last_job;
