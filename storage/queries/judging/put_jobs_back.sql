-- Release claimed jobs, some not before an instant, with their error and the usage of their attempts so far.
UPDATE job SET
    "state" = 'ready',
    attempts = b.attempts,
    not_before = make_timestamp(b.not_before_us),
    claimed_until = NULL,
    error_kind = coalesce(b.error_kind, job.error_kind),
    error = coalesce(b.error, job.error),
    judge_calls = CASE
        WHEN b.judge_calls IS NULL THEN job.judge_calls
        WHEN job.judge_calls IS NULL THEN b.judge_calls
        ELSE job.judge_calls + b.judge_calls
    END,
    input_tokens = CASE
        WHEN b.judge_calls IS NULL THEN job.input_tokens
        WHEN job.judge_calls IS NULL THEN b.input_tokens
        ELSE job.input_tokens + b.input_tokens
    END,
    output_tokens = CASE
        WHEN b.judge_calls IS NULL THEN job.output_tokens
        WHEN job.judge_calls IS NULL THEN b.output_tokens
        ELSE job.output_tokens + b.output_tokens
    END,
    cost_usd = CASE
        WHEN b.judge_calls IS NULL THEN job.cost_usd
        WHEN job.judge_calls IS NULL THEN b.cost_usd
        ELSE job.cost_usd + b.cost_usd
    END
FROM incoming_jobs AS b
WHERE job.job_id = b.job_id AND job."state" = 'claimed';
