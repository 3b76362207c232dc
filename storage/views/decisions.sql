-- Decisions of each rule on each span, trace and session, one row each. The decision on an open trace or session is
-- "waiting". `revision` is the number of the rule's revision; `seq` is the number of the span, or of the last span of
-- the trace or session.
CREATE OR REPLACE VIEW decisions AS
WITH resting AS NOT MATERIALIZED (
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
SELECT d.* EXCLUDE (target), NULL::VARCHAR AS session_id
FROM decided AS d
ANTI JOIN undecided AS o ON o.trace_id = d.trace_id AND o.tenant = d.tenant AND o.revision = d.revision -- of rules about traces
WHERE d.target <> 'SESSION'
UNION ALL
SELECT o.tenant, s.project, o.rule, o.rule_revision, o.trace_id, NULL, 'waiting', NULL, NULL, o.revision, o.seq, NULL
FROM undecided AS o
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
