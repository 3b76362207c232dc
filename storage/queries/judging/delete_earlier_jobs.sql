-- Delete jobs that have not begun, of traces that are no longer to be evaluated.
DELETE FROM job
WHERE job_id IN (SELECT job_id FROM earlier_jobs WHERE is_ready AND outcome <> 2);
