-- Return the latest results of some releases that monitors counted for a rule, and what a revision must do to have as
-- many. 'judge': not decided yet; 'again': failed, skipped, or judged by another evaluator; 'take': judged, or about to
-- be. Results of the same evaluator that monitors have already count toward the number of a side.
WITH latest AS (
    SELECT w.stream, w.side, unnest(max(e.number, $rows)) AS number
    FROM evaluation AS e
    INNER JOIN compared_releases AS w
        ON w.tenant = e.tenant
        AND w.project IS NOT DISTINCT FROM e.project
        AND w.service IS NOT DISTINCT FROM e.service
        AND w.release = e.release
    WHERE e.counted AND e.revision IN (SELECT revision FROM rule_revision WHERE rule_id = $rule_id)
    GROUP BY w.stream, w.side
),

judged AS (
    SELECT
        w.stream,
        w.side,
        e.tenant,
        coalesce(e.session_id, e.trace_id) AS target,
        coalesce(e.span_id, '') AS span,
        arg_max(e.trace_id, e.number) AS trace_id,
        bool_or(e.session_id IS NOT NULL) AS is_session,
        max(e.number) AS last_number,
        max(e.seq) AS seq,
        min(coalesce(e.started_at, TIMESTAMP '1970-01-01')) AS first_at,
        max(coalesce(e.started_at, e.created_at)) AS last_at,
        bool_or((w.stream, e.fingerprint) IN (SELECT (stream, fingerprint) FROM present_evaluators)) AS has
    FROM evaluation AS e
    INNER JOIN latest AS w USING (number)
    GROUP BY ALL
),

own AS (
    SELECT
        tenant,
        coalesce(session_id, trace_id) AS target,
        coalesce(span_id, '') AS span,
        arg_max(job_id, number) AS job_id,
        arg_max(outcome, number) AS outcome,
        arg_max(error_kind, number) FILTER (outcome = 'skipped') AS error_kind,
        arg_max(fingerprint, number) AS fingerprint
    FROM evaluation
    WHERE revision = $revision
        AND coalesce(session_id, trace_id) IN (SELECT target FROM judged)
        AND job_id NOT IN (SELECT job_id FROM superseded)
    GROUP BY ALL
),

waiting AS (
    SELECT DISTINCT tenant, coalesce(session_id, trace_id) AS target, coalesce(span_id, '') AS span, true AS waits
    FROM job
    WHERE revision = $revision
),

left_out AS (
    SELECT DISTINCT seq, true AS is_left_out
    FROM decision
    WHERE revision = $revision AND outcome IN (0, 1) AND seq IN (SELECT seq FROM judged)
),

present AS (
    SELECT stream, fingerprint FROM present_evaluators
    UNION ALL
    -- Of a stream that has no result of the evaluator yet, it is the one that judged for the revision last.
    SELECT j.stream, arg_max(o.fingerprint, o.job_id) AS fingerprint
    FROM judged AS j
    INNER JOIN own AS o USING (tenant, target, span)
    WHERE o.outcome = 'scored' AND j.stream NOT IN (SELECT stream FROM present_evaluators)
    GROUP BY j.stream
),

todo AS (
    SELECT
        j.*,
        o.job_id,
        CASE
            WHEN j.has THEN 'has'
            WHEN w.waits THEN 'take'
            WHEN o.outcome = 'scored' AND (j.stream, o.fingerprint) IN (SELECT (stream, fingerprint) FROM present) THEN 'take'
            WHEN o.outcome IN ('scored', 'failed') OR o.error_kind IN ('over_budget', 'rule_disabled') THEN 'again'
            WHEN o.outcome IS NOT NULL OR l.is_left_out THEN 'none'
            ELSE 'judge'
        END AS what
    FROM judged AS j
    LEFT JOIN own AS o USING (tenant, target, span)
    LEFT JOIN waiting AS w USING (tenant, target, span)
    LEFT JOIN left_out AS l USING (seq)
),

ranked AS (
    SELECT *, row_number() OVER (PARTITION BY stream, side ORDER BY last_number DESC) AS place
    FROM todo
    WHERE what <> 'none'
)

SELECT
    trace_id,
    CASE WHEN what = 'again' THEN job_id END AS job_id,
    is_session,
    epoch_ns(first_at) AS first_ns,
    epoch_ns(last_at) AS last_ns
FROM ranked
WHERE place <= $of_side AND what <> 'has'
ORDER BY place, stream, side
LIMIT $targets;
