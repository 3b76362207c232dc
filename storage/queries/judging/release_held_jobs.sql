-- Release held jobs that a result of the rule they run after called for.
UPDATE job SET "state" = 'ready', created_at = make_timestamp($now_us)
WHERE job_id IN (SELECT job_id FROM told_jobs WHERE is_called);
