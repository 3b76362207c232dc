-- Return held jobs that can be released or dropped, of targets that changed or that a revision decided about. A job is
-- released if a result of the rule that it follows calls for it, and dropped if no result will. A failed result, or one
-- skipped for lack of budget, decides nothing yet, since a retry may still change it. Only results whose last span lies
-- between two numbers are read, since earlier ones were handled when they were stored.
WITH held AS MATERIALIZED (
    SELECT
        j.job_id,
        j.revision AS own_revision,
        j.tenant,
        coalesce(j.session_id, j.trace_id) AS target,
        j.session_id IS NOT NULL AS is_session,
        j.span_id,
        v.tenant AS owner,
        v.project,
        (v.document ->> '$.after.rule') AS leader,
        coalesce((v.document ->> '$.after.outcome'), 'scored') AS outcome,
        (v.document ->> '$.after.passed')::BOOLEAN AS passed,
        (v.document ->> '$.after.below')::DOUBLE AS below,
        (v.document ->> '$.after.atLeast')::DOUBLE AS at_least
    FROM job AS j
    INNER JOIN rule_revision AS v ON v.revision = j.revision
    WHERE j.state = 'held'
        AND (j.tenant, coalesce(j.session_id, j.trace_id)) IN (SELECT (tenant, target) FROM changed_targets)
),
revisions AS MATERIALIZED (
    SELECT h.*, v.revision
    FROM held AS h
    INNER JOIN rule AS r ON r.tenant IN (h.owner, '')
        AND h.leader IN (r.rule_id, r.name)
        AND (h.project IS NULL OR r.project IS NULL OR r.project = h.project)
    INNER JOIN rule_revision AS v ON v.rule_id = r.rule_id
),
touched AS (
    SELECT h.job_id
    FROM held AS h
    INNER JOIN changed_targets AS c ON c.tenant = h.tenant AND c.target = h.target
    WHERE (c.span_id IS NULL OR h.span_id IS NULL OR c.span_id = h.span_id)
        AND (c.revision IS NULL OR (h.job_id, c.revision) IN (SELECT (job_id, revision) FROM revisions))
),
said AS MATERIALIZED (
    SELECT
        l.job_id,
        e.outcome = l.outcome
            AND (l.passed IS NULL OR e.passed = l.passed)
            AND (l.below IS NULL OR e.score < l.below)
            AND (l.at_least IS NULL OR e.score >= l.at_least) AS calls,
        e.span_id IS NOT DISTINCT FROM l.span_id
            AND (e.outcome = 'failed' OR e.error_kind IN ('over_budget', 'rule_disabled')) AS may_be_retried
    FROM revisions AS l
    INNER JOIN evaluation AS e ON e.revision = l.revision
        AND e.tenant = l.tenant
        AND coalesce(e.session_id, e.trace_id) = l.target
        AND (e.session_id IS NOT NULL) = l.is_session
    WHERE e.seq BETWEEN $first AND $last
        AND (l.span_id IS NULL OR e.span_id = l.span_id)
        AND e.job_id NOT IN (SELECT job_id FROM superseded)
),
awaited AS (
    SELECT l.job_id
    FROM revisions AS l
    INNER JOIN job AS j ON j.revision = l.revision
        AND j.tenant = l.tenant
        AND coalesce(j.session_id, j.trace_id) = l.target
        AND (j.session_id IS NOT NULL) = l.is_session
    WHERE l.span_id IS NULL OR j.span_id = l.span_id
    UNION ALL
    SELECT job_id FROM said WHERE may_be_retried
)
SELECT
    h.job_id,
    h.tenant,
    h.target,
    h.span_id,
    h.own_revision AS revision,
    h.job_id IN (SELECT job_id FROM said WHERE calls) AS is_called
FROM held AS h
WHERE h.job_id IN (SELECT job_id FROM touched)
    AND (is_called OR h.job_id NOT IN (SELECT job_id FROM awaited));
