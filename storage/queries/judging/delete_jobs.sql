-- Delete jobs whose evaluations are stored.
DELETE FROM job
USING incoming_results AS r
WHERE job.job_id = r.job_id;
