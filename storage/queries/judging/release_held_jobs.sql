-- Let jobs be evaluated for which a result of the rule that they go by called.
UPDATE job SET "state" = 'ready', created_at = make_timestamp($now_us)
WHERE job_id IN (SELECT job_id FROM told_jobs WHERE is_called);
