-- Insert the job of a manual evaluation, which is done: one round after the earlier ones.
INSERT INTO job BY NAME
SELECT
    $job_id::BIGINT AS job_id,
    $revision::INTEGER AS revision,
    $seq::BIGINT AS seq,
    $tenant AS tenant,
    $project AS project,
    $trace_id AS trace_id,
    $span_id AS span_id,
    $release AS release,
    $round::INTEGER AS round,
    'claimed' AS "state",
    1 AS attempts,
    make_timestamp($now_us) AS created_at,
    'asked' AS occasion;
