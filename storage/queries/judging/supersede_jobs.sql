-- Mark the evaluations of jobs as superseded.
INSERT INTO superseded BY NAME
SELECT job_id, make_timestamp($now_us) AS superseded_at
FROM repeated_jobs;
