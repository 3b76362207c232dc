-- What people said of the results of a rule: a row for each result that was voted on, with the votes that count.
WITH annotation AS MATERIALIZED (
    SELECT * FROM annotation WHERE tenant = $tenant AND name = $name AND trace_id IS NOT NULL
),
annotations AS ($annotations),
votes AS (
    SELECT
        trace_id,
        span_id,
        session_id,
        bool_and(passed) FILTER (WHERE source = 'adjudicator') AS decided,
        list(passed ORDER BY number) FILTER (WHERE source <> 'adjudicator' AND passed IS NOT NULL) AS votes,
        count(*) FILTER (WHERE passed IS NULL) AS unsure
    FROM annotations
    WHERE tenant = $tenant
        AND name = $name
        AND target IN ('trace', 'span', 'session')
        AND number IS NOT NULL
        AND list_contains($sources, source)
        AND NOT superseded
        AND NOT withdrawn
    GROUP BY trace_id, span_id, session_id
)
SELECT e.fingerprint, e.trace_id, e.span_id, e.session_id, e.passed AS judged, e.score, e.reason, v.decided, v.votes, v.unsure
FROM evaluation AS e
INNER JOIN votes AS v
    ON v.trace_id = e.trace_id
    AND v.span_id IS NOT DISTINCT FROM e.span_id
    AND v.session_id IS NOT DISTINCT FROM e.session_id
WHERE e.tenant = $tenant
    AND ($project::VARCHAR IS NULL OR e.project = $project)
    AND e.revision IN (SELECT revision FROM rule_revision WHERE rule_id = $rule_id)
    AND e.outcome = 'scored'
    AND e.passed IS NOT NULL
    AND e.fingerprint IS NOT NULL
    AND ($from_us::BIGINT IS NULL OR e.created_at >= make_timestamp($from_us::BIGINT))
    AND e.job_id NOT IN (SELECT job_id FROM superseded)
ORDER BY e.created_at DESC, e.job_id
LIMIT $rows;
