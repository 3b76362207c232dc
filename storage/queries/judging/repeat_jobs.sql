-- Insert jobs that repeat finished ones, numbered after a number: one more round for the same target, optionally for
-- an occasion.
INSERT INTO job BY NAME
SELECT
    $last_job + row_number() OVER (ORDER BY e.job_id) AS job_id,
    e.revision,
    e.seq,
    e.tenant,
    e.project,
    e.trace_id,
    e.span_id,
    e.session_id,
    e.release,
    e.service,
    e.started_at,
    e.round + 1 AS round,
    'ready' AS "state",
    0 AS attempts,
    make_timestamp($now_us) AS created_at,
    coalesce($occasion::VARCHAR, CASE WHEN e.counted THEN 'again' ELSE e.occasion END) AS occasion
FROM evaluation AS e
SEMI JOIN repeated_jobs USING (job_id);
