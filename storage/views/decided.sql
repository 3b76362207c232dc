-- Decisions of each rule on each span, trace and session, one row each, before it is known whether they still hold
-- (see `decisions`).
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
        WHEN e.outcome IS NULL AND v.comes_after THEN 'unflagged'
        ELSE coalesce(e.outcome, 'matched') -- the latter where neither job nor evaluation is kept
    END AS decision,
    c.clause,
    d.decided_at,
    d.revision,
    d.seq,
    v.target
FROM decision AS d
INNER JOIN ( -- read once: a join that carries documents copies them for each decision
    SELECT revision, rule, digest, target, (document ->> '$.after.rule') IS NOT NULL AS comes_after
    FROM rule_revision
) AS v ON v.revision = d.revision
LEFT JOIN ( -- lists of clauses would be copied, too
    SELECT revision, generate_subscripts(clauses, 1) - 1 AS number, unnest(clauses) AS clause
    FROM rule_revision
) AS c ON c.revision = d.revision AND c.number = d.clause
INNER JOIN span AS s ON s.seq = d.seq
LEFT JOIN job AS j ON j.seq = d.seq AND j.revision = d.revision
LEFT JOIN ( -- of the last round; a group by target of all results would take their memory, and they are many
    SELECT r.revision, r.seq, r.project, r.outcome, r.error_kind
    FROM evaluation AS r
    ANTI JOIN evaluation AS later
        ON later.round > 0 AND later.revision = r.revision AND later.seq = r.seq AND later.round > r.round
) AS e ON e.revision = d.revision AND e.seq = d.seq;
