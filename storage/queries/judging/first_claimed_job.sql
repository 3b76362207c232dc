-- Return one claimed job, if there is any.
SELECT job_id
FROM job
WHERE "state" = 'claimed'
LIMIT 1;
