-- Insert the first jobs of targets, numbered from the last job on. A job is held if another rule's result may call for
-- it.
INSERT INTO job BY NAME
SELECT
    $last_job::BIGINT + row_number() OVER () AS job_id,
    revision,
    seq,
    tenant,
    project,
    coalesce(session_trace, trace_id) AS trace_id,
    CASE WHEN session_trace IS NOT NULL THEN i.trace_id END AS session_id,
    span_id,
    release,
    service,
    started_at,
    0 AS round,
    CASE
        WHEN i.revision IN (SELECT revision FROM rule_revision WHERE (document ->> '$.after.rule') IS NOT NULL) THEN 'held'
        ELSE 'ready'
    END AS "state",
    0 AS attempts,
    make_timestamp($now_us) AS created_at,
    $occasion AS occasion
FROM incoming_jobs AS i;
