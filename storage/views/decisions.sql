-- What became of each span, each trace and each session by each rule, one row each. Of a trace that has not settled that is to be seen:
-- it waits; so of a session that has not come to rest. `revision` is the number of the rule's revision, `seq` that of the span, or of the last of the trace or session.
CREATE OR REPLACE VIEW decisions AS
WITH decided AS NOT MATERIALIZED (
    SELECT
        s.tenant,
        coalesce(j.project, e.project, s.project) AS project,
        v.rule,
        left(v.digest, 12) AS rule_revision,
        s.trace_id,
        CASE v.target WHEN 'SPAN' THEN s.span_id END AS span_id,
        CASE
            WHEN d.outcome = 0 THEN 'filtered'
            WHEN d.outcome = 1 THEN 'sampled_out'
            WHEN d.outcome = 3 THEN 'undecided'
            WHEN j.state = 'ready' AND j.not_before > now()::TIMESTAMP THEN 'waiting'
            WHEN j.state IS NOT NULL THEN j.state
            WHEN e.outcome = 'skipped' AND e.error_kind IN ('over_budget', 'rule_disabled') THEN e.error_kind
            WHEN e.outcome IS NULL AND (v.document ->> '$.after.rule') IS NOT NULL THEN 'unflagged'
            ELSE coalesce(e.outcome, 'matched') -- the latter where neither job nor evaluation is kept
        END AS decision,
        v.clauses[d.clause + 1] AS clause,
        d.decided_at,
        d.revision,
        d.seq,
        v.target
    FROM decision AS d
    INNER JOIN rule_revision AS v ON v.revision = d.revision
    INNER JOIN span AS s ON s.seq = d.seq
    LEFT JOIN job AS j ON j.seq = d.seq AND j.revision = d.revision
    LEFT JOIN LATERAL ( -- of these decisions alone: results are many, and a question is mostly about a trace, or an hour
        SELECT
            arg_max(r.project, r.round) AS project,
            arg_max(r.outcome, r.round) AS outcome,
            arg_max(coalesce(r.error_kind, ''), r.round) AS error_kind
        FROM evaluation AS r
        WHERE r.revision = d.revision AND r.seq = d.seq
    ) AS e ON true
),
open AS NOT MATERIALIZED (
    SELECT t.tenant, t.trace_id, t.seq, r.revision, r.name AS rule, left(v.digest, 12) AS rule_revision
    FROM (SELECT tenant, trace_id, max(last_seq) AS seq FROM trace_open GROUP BY tenant, trace_id) AS t
    INNER JOIN rule AS r ON r.tenant IN (t.tenant, '') AND r.enabled AND r.deleted_at IS NULL
    INNER JOIN rule_revision AS v ON v.revision = r.revision AND v.target = 'TRACE'
),
resting AS NOT MATERIALIZED (
    SELECT t.tenant, t.session_id, t.trace_id, t.seq, r.revision, r.name AS rule, left(v.digest, 12) AS rule_revision
    FROM (
        SELECT
            tenant,
            session_id,
            arg_max(trace_id, last_seq) AS trace_id,
            max(last_seq) AS seq,
            min(rested_us) AS rested_us
        FROM session_open
        GROUP BY tenant, session_id
    ) AS t
    INNER JOIN rule AS r ON r.tenant IN (t.tenant, '') AND r.enabled AND r.deleted_at IS NULL
    INNER JOIN rule_revision AS v ON v.revision = r.revision AND v.target = 'SESSION'
    WHERE t.rested_us < coalesce((v.document ->> '$.settle')::DOUBLE * 1000000, t.rested_us + 1)
)
SELECT * EXCLUDE (target), NULL::VARCHAR AS session_id FROM decided WHERE target = 'SPAN'
UNION ALL
SELECT d.* EXCLUDE (target), NULL
FROM decided AS d
ANTI JOIN open AS o ON o.trace_id = d.trace_id AND o.tenant = d.tenant AND o.revision = d.revision
WHERE d.target = 'TRACE'
UNION ALL
SELECT o.tenant, s.project, o.rule, o.rule_revision, o.trace_id, NULL, 'waiting', NULL, NULL, o.revision, o.seq, NULL
FROM open AS o
INNER JOIN span AS s ON s.seq = o.seq
UNION ALL
SELECT d.* EXCLUDE (target), t.session_id
FROM decided AS d
INNER JOIN trace_reading AS t ON t.tenant = d.tenant AND t.trace_id = d.trace_id
ANTI JOIN resting AS r ON r.tenant = d.tenant AND r.session_id = t.session_id AND r.revision = d.revision
WHERE d.target = 'SESSION'
UNION ALL
SELECT r.tenant, s.project, r.rule, r.rule_revision, r.trace_id, NULL, 'waiting', NULL, NULL, r.revision, r.seq, r.session_id
FROM resting AS r
INNER JOIN span AS s ON s.seq = r.seq;
