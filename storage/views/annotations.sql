-- Annotations by people, applications and their users on traces, spans, sessions and run items, one row each, and
-- scores from `gen_ai.evaluation.result` events. An annotation that its author changed or removed is superseded.
CREATE OR REPLACE VIEW annotations AS
WITH said AS NOT MATERIALIZED (
    SELECT
        *,
        number < max(number) OVER (
            PARTITION BY tenant, target, coalesce(session_id, trace_id), span_id, run_id, item_number, name, source, author
        ) AS superseded
    FROM annotation
)
SELECT
    s.tenant,
    s.project,
    s.target,
    s.trace_id,
    s.span_id,
    s.session_id,
    s.run_id,
    s.item_number,
    s.name,
    s.label,
    s.score,
    CASE lower(s.label)
        WHEN 'correct' THEN true
        WHEN 'pass' THEN true
        WHEN 'yes' THEN true
        WHEN 'up' THEN true
        WHEN 'incorrect' THEN false
        WHEN 'fail' THEN false
        WHEN 'no' THEN false
        WHEN 'down' THEN false
    END AS passed,
    s.note,
    s.expected,
    s.source,
    s.author,
    s.withdrawn,
    s.superseded,
    s.created_at,
    s.number,
    NULL::VARCHAR AS error_kind
FROM said AS s
UNION ALL BY NAME
SELECT
    e.tenant,
    e.project,
    CASE WHEN e.session_id IS NOT NULL THEN 'session' WHEN e.span_id IS NULL THEN 'trace' ELSE 'span' END AS target,
    e.trace_id,
    e.span_id,
    e.session_id,
    e.name,
    e.label,
    e.score,
    e.passed,
    e.reason AS note,
    CASE WHEN json_extract_string(e.metadata, '$."tracejury.source"') = 'user' THEN 'user' ELSE 'application' END AS source,
    'event' AS author,
    false AS withdrawn,
    false AS superseded,
    e.created_at,
    e.error_kind
FROM evaluations AS e
WHERE e.origin = 'external';
