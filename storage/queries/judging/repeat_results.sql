-- Insert copies of results as a baseline that monitors count: one more round, without usage.
INSERT INTO evaluation BY NAME
SELECT
    e.* REPLACE (
        $last_job::BIGINT + row_number() OVER (ORDER BY e.number) AS job_id,
        e.round + 1 AS round,
        0 AS attempts,
        NULL AS judge_calls,
        NULL AS input_tokens,
        NULL AS output_tokens,
        NULL AS cost_usd,
        NULL AS latency_ms,
        make_timestamp($now_us) AS created_at,
        (SELECT last_number FROM result_state) + row_number() OVER (ORDER BY e.number) AS number,
        'baseline' AS occasion,
        true AS counted
    )
FROM evaluation AS e
SEMI JOIN repeated_jobs USING (job_id);
