-- Return the earlier jobs, finished or not, of traces that are decided again, whose last span lies between two
-- numbers. For a session, its id takes the place of the trace id.
SELECT d.revision, d.tenant, d.trace_id, d.outcome, j.job_id, j.round, j.is_ready, j.is_superseded, j.occasion, j.counted
FROM (
    SELECT *, job_id IN (SELECT job_id FROM superseded) AS is_superseded
    FROM (
        SELECT
            job_id,
            revision,
            seq,
            tenant,
            coalesce(session_id, trace_id) AS trace_id,
            span_id,
            round,
            "state" IN ('ready', 'held') AS is_ready,
            occasion,
            false AS counted
        FROM job
        UNION ALL
        SELECT
            job_id, revision, seq, tenant, coalesce(session_id, trace_id), span_id, round, false, occasion, counted
        FROM evaluation
    )
    WHERE span_id IS NULL AND seq BETWEEN $first AND $last
) AS j
INNER JOIN decided_again AS d ON d.revision = j.revision AND d.tenant = j.tenant AND d.trace_id = j.trace_id;
