-- Votes and external scores that monitors count, one row for each score and rule that counts it.
CREATE OR REPLACE VIEW counted_scores AS
SELECT
    c.tenant,
    c.project,
    r.rule,
    r.rule_id,
    left(r.digest, 12) AS rule_revision,
    c.trace_id,
    c.span_id,
    'scores:' || c.name AS fingerprint,
    c.name,
    c.source,
    c.author,
    c.release,
    c.passed,
    c.score,
    c.note,
    c.number,
    c.created_at,
    c.service,
    c.started_at
FROM counted_score AS c
INNER JOIN rule_revision AS r ON r.revision = c.revision;
