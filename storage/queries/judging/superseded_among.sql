-- Which of these jobs are superseded.
SELECT job_id
FROM superseded
SEMI JOIN incoming_jobs USING (job_id);
