-- Forget jobs for which no result of the rule that they go by will call.
DELETE FROM job
WHERE job_id IN (SELECT job_id FROM told_jobs WHERE NOT is_called);
