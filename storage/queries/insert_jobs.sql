-- Store what is to be evaluated for the first time, numbered from the last job on.
INSERT INTO job BY NAME
SELECT
    $last_job::BIGINT + row_number() OVER () AS job_id,
    revision,
    seq,
    tenant,
    project,
    trace_id,
    span_id,
    release,
    0 AS round,
    'ready' AS "state",
    0 AS attempts,
    make_timestamp($now_us) AS created_at,
    $occasion AS occasion
FROM incoming_jobs;
