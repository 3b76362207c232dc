-- Let jobs be claimed again, some not before a time. With them goes why.
UPDATE job SET
    "state" = 'ready',
    attempts = b.attempts,
    not_before = make_timestamp(b.not_before_us),
    claimed_until = NULL,
    error_kind = coalesce(b.error_kind, job.error_kind),
    error = coalesce(b.error, job.error)
FROM incoming_jobs AS b
WHERE job.job_id = b.job_id AND job."state" = 'claimed';
