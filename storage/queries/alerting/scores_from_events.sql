-- Return scores that arrived as events after a commit and answer one of the given questions, as the view of evaluations
-- reads them. Only the latest score of each question, target and source is returned. Their numbers are below 0, since
-- only annotations have numbers.
WITH log_record AS MATERIALIZED (
    SELECT *
    FROM main.log_record
    WHERE batch > $after::BIGINT
        AND event_name = 'gen_ai.evaluation.result'
        AND attributes['gen_ai.evaluation.name'] IN (SELECT "name" FROM wanted_scores)
),
evaluation AS (
    SELECT * FROM main.evaluation WHERE false
),
came AS (
    $evaluations
)
SELECT
    tenant,
    NULL::VARCHAR AS project, -- an event names the evaluator's
    trace_id,
    span_id,
    "name",
    CASE WHEN json_extract_string(metadata, '$."tracejury.source"') = 'user' THEN 'user' ELSE 'application' END AS source,
    'event' AS author,
    -row_number() OVER (ORDER BY created_at, trace_id, span_id, "name") AS number,
    false AS withdrawn,
    passed,
    score,
    reason AS note
FROM came
WHERE origin = 'external' AND session_id IS NULL AND outcome = 'scored'
QUALIFY row_number() OVER (
    PARTITION BY tenant, trace_id, span_id, "name", source ORDER BY created_at DESC, score, reason
) = 1;
