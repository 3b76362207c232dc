-- Make a waiting job due at once, with all its attempts.
UPDATE job SET not_before = NULL, attempts = 0
WHERE job_id = $job_id AND "state" = 'ready';
