-- Insert jobs for targets without a waiting job, one round after the last evaluation. Counted targets are not counted
-- again, and results of a backfill raise no alert later. A job is held if another rule's result must call for it.
INSERT INTO job BY NAME
SELECT
    $last_job::BIGINT + row_number() OVER (ORDER BY seq, revision) AS job_id,
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
    coalesce(last_round + 1, 0) AS round,
    CASE
        WHEN i.revision IN (SELECT revision FROM rule_revision WHERE (document ->> '$.after.rule') IS NOT NULL) THEN 'held'
        ELSE 'ready'
    END AS "state",
    0 AS attempts,
    make_timestamp($now_us) AS created_at,
    coalesce(e.occasion, 'live') AS occasion
FROM incoming_jobs AS i
LEFT JOIN (
    SELECT
        revision,
        tenant,
        trace_id,
        max(round) AS last_round,
        bool_or(is_ready) AS is_waiting,
        CASE
            WHEN bool_or(counted OR occasion = 'again') THEN 'again'
            WHEN bool_or(occasion = 'baseline') THEN 'baseline'
            WHEN bool_or(occasion = 'backfill') THEN 'backfill'
            ELSE 'live'
        END AS occasion
    FROM earlier_jobs
    GROUP BY ALL
) AS e USING (revision, tenant, trace_id)
WHERE NOT coalesce(e.is_waiting, false);
