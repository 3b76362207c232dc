-- Mark the evaluations of jobs as superseded.
INSERT INTO superseded
SELECT job_id, make_timestamp($now_us)
FROM repeated_jobs;
