-- Return the decisions of each rule revision about one trace and its spans, whose numbers lie between two. Matches come
-- first, and the trace comes before its spans. The view `decisions`, which also has sessions, took half as long again,
-- nearly all of it for planning.
WITH found AS (
    SELECT d.rule, d.revision, d.span_id, d.decision, d.clause, d.decided_at, d.seq
    FROM decided AS d
    WHERE d.seq BETWEEN $first_seq AND $last_seq
        AND d.tenant = $tenant
        AND d.trace_id = $trace_id
        AND (
            d.target = 'SPAN'
            OR (
                d.target = 'TRACE'
                AND d.revision NOT IN (SELECT revision FROM undecided WHERE tenant = $tenant AND trace_id = $trace_id)
            )
        )
    UNION ALL BY NAME
    SELECT "rule", revision, 'waiting' AS decision, seq
    FROM undecided
    WHERE tenant = $tenant AND trace_id = $trace_id AND seq BETWEEN $first_seq AND $last_seq
)
SELECT
    v.rule_id,
    d.rule,
    d.revision,
    v.digest,
    d.span_id,
    d.decision,
    d.clause,
    epoch_ns(d.decided_at) AS decided_at_ns
FROM found AS d
INNER JOIN rule_revision AS v ON v.revision = d.revision
ORDER BY d.decision IN ('filtered', 'sampled_out', 'unflagged'), d.span_id IS NOT NULL, d.revision, d.seq
LIMIT $rows;
