-- Let the evaluations of jobs no longer count.
INSERT INTO superseded
SELECT job_id, make_timestamp($now_us)
FROM repeated_jobs;
