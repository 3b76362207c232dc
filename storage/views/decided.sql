-- What became of each span, each trace and each session that was decided on, by each rule; `decisions` says what of it stands.
CREATE OR REPLACE VIEW decided AS
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
) AS e ON true;
