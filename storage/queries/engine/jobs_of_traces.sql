-- Return the jobs for traces or sessions that rules matched, in the order of their last spans.
WITH about AS (
    SELECT
        trace,
        coalesce(
            arg_min(project, project_at) FILTER (WHERE is_root), arg_min(project, project_at)
        ) AS project,
        coalesce(
            arg_min(service, project_at) FILTER (WHERE is_root), arg_min(service, project_at)
        ) AS service,
        min(project_at)::TIMESTAMP AS started_at/* releases */
    FROM facts
    GROUP BY trace
)
SELECT
    revision,
    d.seq,
    t.tenant,
    a.project,
    t.trace_id,
    NULL::VARCHAR AS span_id,
    t.session_trace,
    /* release */ AS release,
    a.service,
    a.started_at
FROM decided AS d
INNER JOIN traces AS t ON t.trace = d.trace
INNER JOIN about AS a ON a.trace = d.trace
WHERE d.outcome = 2
ORDER BY d.seq, revision;
