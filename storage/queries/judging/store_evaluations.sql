-- Insert the results of jobs that still exist; of others they are stored already. Includes the usage of all attempts.
-- Monitors count the first score of a target.
INSERT INTO evaluation BY NAME
SELECT
    r.* EXCLUDE (judge_calls, input_tokens, output_tokens, cost_usd),
    CASE
        WHEN j.judge_calls IS NULL THEN r.judge_calls
        WHEN r.judge_calls IS NULL THEN j.judge_calls
        ELSE r.judge_calls + j.judge_calls
    END AS judge_calls,
    CASE
        WHEN j.judge_calls IS NULL THEN r.input_tokens
        WHEN r.judge_calls IS NULL THEN j.input_tokens
        ELSE r.input_tokens + j.input_tokens
    END AS input_tokens,
    CASE
        WHEN j.judge_calls IS NULL THEN r.output_tokens
        WHEN r.judge_calls IS NULL THEN j.output_tokens
        ELSE r.output_tokens + j.output_tokens
    END AS output_tokens,
    CASE
        WHEN j.judge_calls IS NULL THEN r.cost_usd
        WHEN r.judge_calls IS NULL THEN j.cost_usd
        ELSE r.cost_usd + j.cost_usd
    END AS cost_usd,
    j.revision,
    j.seq,
    j.tenant,
    j.project,
    j.trace_id,
    j.span_id,
    j.session_id,
    j.release,
    j.service,
    j.started_at,
    j.round,
    j.attempts,
    make_timestamp($now_us) AS created_at,
    j.created_at AS enqueued_at,
    (SELECT last_number FROM result_state) + row_number() OVER (ORDER BY j.job_id) AS number,
    j.occasion,
    j.occasion IN ('live', 'baseline')
        AND r.outcome = 'scored'
        AND r.fingerprint IS NOT NULL
        AND s.job_id IS NULL AS counted
FROM incoming_results AS r
INNER JOIN job AS j ON j.job_id = r.job_id
LEFT JOIN (
    SELECT DISTINCT job_id
    FROM superseded
    SEMI JOIN incoming_results USING (job_id)
) AS s ON s.job_id = r.job_id;
