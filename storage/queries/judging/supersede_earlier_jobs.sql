-- Let what was evaluated before, or is being evaluated, count no more.
INSERT INTO superseded BY NAME
SELECT job_id, make_timestamp($now_us) AS superseded_at
FROM earlier_jobs
WHERE NOT is_ready AND NOT is_superseded;
