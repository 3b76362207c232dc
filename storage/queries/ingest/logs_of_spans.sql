-- Return the log records of some commits that belong to some spans. A record matches by its span id. The last record
-- about the end of a call also matches if the call's id is an attribute of a span of the trace. Of most records only
-- keys are read; score events are skipped.
WITH keyed AS MATERIALIZED (
    SELECT rowid AS id, tenant, trace_id, span_id, call_key
    FROM log_record
    SEMI JOIN logged_spans USING (tenant, trace_id)
    LEFT JOIN call_events USING (event_name)
    WHERE event_name <> 'gen_ai.evaluation.result' AND batch BETWEEN $since AND $before - 1
),
named_call AS (
    SELECT tenant, trace_id, unnest(map_values(attributes)) AS call_id
    FROM logged_spans
    SEMI JOIN (FROM keyed WHERE call_key IS NOT NULL) USING (tenant, trace_id)
),
own AS (
    SELECT id
    FROM keyed
    SEMI JOIN logged_spans USING (tenant, trace_id, span_id)
),
ending AS (
    SELECT l.rowid AS id, l.tenant, l.trace_id, l.attributes[call_key] AS call_id
    FROM log_record AS l
    LEFT JOIN call_events USING (event_name)
    WHERE l.rowid IN (SELECT id FROM keyed WHERE call_key IS NOT NULL) AND batch BETWEEN $since AND $before - 1
    QUALIFY row_number() OVER (
        PARTITION BY l.tenant, l.trace_id, l.attributes[call_key]
        ORDER BY l.logged_at DESC, l.batch DESC, l.rowid DESC
    ) = 1
)
SELECT tenant, trace_id, span_id, event_name, logged_at, body, body_type, attributes, attribute_types
FROM log_record
WHERE rowid IN (
    FROM own
    UNION ALL
    (SELECT id FROM ending SEMI JOIN named_call USING (tenant, trace_id, call_id))
)
    AND batch BETWEEN $since AND $before - 1
ORDER BY batch, rowid;
