-- Record how far spans are matched, and so many more jobs, if that goes on from where it was.
UPDATE matching_state SET seq = $until, last_job = last_job + $jobs
WHERE seq = $after
RETURNING last_job;
