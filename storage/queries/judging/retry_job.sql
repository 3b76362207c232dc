-- Let a job that waits be due at once, with all its attempts before it.
UPDATE job SET not_before = NULL, attempts = 0
WHERE job_id = $job_id AND "state" = 'ready';
