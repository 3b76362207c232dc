-- Return the superseded ones of these jobs.
SELECT job_id
FROM superseded
SEMI JOIN incoming_jobs USING (job_id);
