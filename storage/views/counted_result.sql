-- Results that monitors count, and external scores that rules let count, one row each. Other statements are built from
-- it.
CREATE OR REPLACE VIEW counted_result AS
SELECT
    e.number,
    e.job_id,
    e.round,
    e.tenant,
    e.project,
    r.rule_id,
    r.rule,
    e.revision,
    e.fingerprint,
    e.name AS evaluator,
    e.release,
    e.service,
    e.trace_id,
    e.span_id,
    e.session_id,
    e.passed,
    e.score,
    e.reason,
    e.occasion = 'baseline' AS is_baseline,
    e.created_at
FROM evaluation AS e
INNER JOIN rule_revision AS r ON r.revision = e.revision
WHERE e.counted
UNION ALL BY NAME
SELECT
    c.number,
    c.number AS job_id,
    0 AS round,
    c.tenant,
    c.project,
    r.rule_id,
    r.rule,
    c.revision,
    'scores:' || c.name AS fingerprint,
    c.name AS evaluator,
    c.release,
    c.service,
    c.trace_id,
    c.span_id,
    c.passed,
    c.score,
    c.note AS reason,
    false AS is_baseline,
    c.created_at
FROM counted_score AS c
INNER JOIN rule_revision AS r ON r.revision = c.revision;
