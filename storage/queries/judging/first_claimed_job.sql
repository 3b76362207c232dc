-- One of the jobs that are claimed, if there are any.
SELECT job_id
FROM job
WHERE "state" = 'claimed'
LIMIT 1;
