-- Extend the leases of running jobs.
UPDATE job SET claimed_until = make_timestamp($until_us)
FROM held_jobs AS h
WHERE job.job_id = h.job_id;
