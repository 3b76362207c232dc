-- Evaluation jobs, waiting or finished, one row each.
CREATE OR REPLACE VIEW jobs AS
WITH every AS (
    SELECT
        CASE
            WHEN j.state = 'ready' AND j.not_before > make_timestamp(epoch_us(now())) THEN 'waiting'
            ELSE j.state
        END AS "state",
        j.job_id,
        j.revision,
        j.tenant,
        j.project,
        j.trace_id,
        j.span_id,
        j.release,
        j.round,
        j.attempts,
        j.not_before,
        j.error_kind,
        j.error,
        j.created_at,
        j.session_id,
        NULL::TIMESTAMP AS finished_at
    FROM job AS j
    UNION ALL
    SELECT
        e.outcome AS "state",
        e.job_id,
        e.revision,
        e.tenant,
        e.project,
        e.trace_id,
        e.span_id,
        e.release,
        e.round,
        e.attempts,
        NULL::TIMESTAMP AS not_before,
        e.error_kind,
        CASE WHEN e.outcome <> 'scored' THEN e.reason END AS error,
        e.enqueued_at AS created_at,
        e.session_id,
        e.created_at AS finished_at
    FROM evaluation AS e
)
SELECT
    every.tenant,
    every.project,
    r.rule,
    left(r.digest, 12) AS rule_revision,
    every.trace_id,
    every.span_id,
    CASE WHEN every.job_id IN (SELECT job_id FROM superseded) THEN 'superseded' ELSE every.state END AS "state",
    every.attempts,
    every.not_before,
    every.error_kind,
    every.error,
    every.created_at,
    every.finished_at,
    r.evaluator,
    every.release,
    every.round,
    every.job_id,
    r.rule_id,
    every.revision,
    every.session_id
FROM every
INNER JOIN rule_revision AS r ON r.revision = every.revision;
