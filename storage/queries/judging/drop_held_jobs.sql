-- Delete held jobs that no result of the rule they run after will release.
DELETE FROM job
WHERE job_id IN (SELECT job_id FROM told_jobs WHERE NOT is_called);
