-- Rules about traces, each with the traces that it waits for because they have not settled.
CREATE OR REPLACE VIEW undecided AS
SELECT t.tenant, t.trace_id, t.seq, r.revision, r.name AS rule, left(v.digest, 12) AS rule_revision
FROM (SELECT tenant, trace_id, max(last_seq) AS seq FROM trace_open GROUP BY tenant, trace_id) AS t
INNER JOIN rule AS r ON r.tenant IN (t.tenant, '') AND r.enabled AND r.deleted_at IS NULL
INNER JOIN rule_revision AS v ON v.revision = r.revision AND v.target = 'TRACE';
