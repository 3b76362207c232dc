-- Mark jobs as claimed, until their lease ends.
UPDATE job SET
    "state" = 'claimed',
    attempts = attempts + 1,
    not_before = NULL,
    claimed_until = make_timestamp($until_us)
FROM claimed_jobs AS c
WHERE job.job_id = c.job_id;
