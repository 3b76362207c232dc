-- Mark earlier evaluations, finished or running, as superseded.
INSERT INTO superseded BY NAME
SELECT job_id, make_timestamp($now_us) AS superseded_at
FROM earlier_jobs
WHERE NOT is_ready AND NOT is_superseded;
