-- Results of jobs, one row each; earlier results of a target that was evaluated again are superseded. Scores that
-- arrived as log records have a row each, unless this server sent them.
CREATE OR REPLACE VIEW evaluations AS
SELECT
    e.tenant,
    e.project,
    r.rule,
    left(r.digest, 12) AS rule_revision,
    e.trace_id,
    e.span_id,
    r.evaluator,
    e.fingerprint,
    e.outcome,
    e.score,
    e.passed,
    e.reason,
    e.judge_model,
    e.input_tokens,
    e.output_tokens,
    e.cost_usd,
    e.latency_ms,
    e.attempts,
    e.created_at,
    e.job_id IN (SELECT job_id FROM superseded) AS superseded,
    e.name,
    e.threshold,
    e.error_kind,
    e.metadata,
    e.judge_calls,
    e.release,
    e.round,
    e.job_id,
    r.rule_id,
    e.revision,
    e.enqueued_at,
    e.number,
    e.occasion,
    e.counted,
    'rule' AS origin,
    NULL::VARCHAR AS label,
    e.session_id,
    e.service,
    e.started_at
FROM evaluation AS e
INNER JOIN rule_revision AS r ON r.revision = e.revision
UNION ALL BY NAME
SELECT
    l.tenant,
    coalesce(
        l.resource_attributes ->> '$."dokimos.project"',
        l.resource_attributes ->> '$."dokimos.project.name"',
        l.resource_attributes ->> '$."openinference.project.name"',
        l.resource_attributes ->> '$."service.name"'
    ) AS project,
    l.trace_id,
    CASE WHEN l.attributes['tracejury.target'] IN ('trace', 'session') THEN NULL ELSE l.span_id END AS span_id,
    CASE WHEN l.attributes['tracejury.target'] = 'session' THEN l.attributes['session.id'] END AS session_id,
    l.outcome,
    CASE WHEN l.outcome = 'scored' THEN TRY_CAST(l.attributes['gen_ai.evaluation.score.value'] AS DOUBLE) END AS score,
    CASE CASE WHEN l.outcome = 'scored' THEN l.plain_label END
        WHEN 'pass' THEN true
        WHEN 'passed' THEN true
        WHEN 'correct' THEN true
        WHEN 'relevant' THEN true
        WHEN 'true' THEN true
        WHEN 'yes' THEN true
        WHEN 'fail' THEN false
        WHEN 'failed' THEN false
        WHEN 'incorrect' THEN false
        WHEN 'not_relevant' THEN false
        WHEN 'false' THEN false
        WHEN 'no' THEN false
    END AS passed,
    l.attributes['gen_ai.evaluation.explanation'] AS reason,
    l.received_at AS created_at,
    false AS superseded,
    coalesce(l.attributes['gen_ai.evaluation.name'], '') AS name,
    CASE
        WHEN l.outcome = 'failed' THEN coalesce(
            l.attributes['error.type'],
            l.attributes['exception.type'],
            CASE WHEN l.attributes['gen_ai.evaluation.score.value'] IS NULL AND l.plain_label = 'error' THEN 'error' END,
            'not_a_number'
        )
    END AS error_kind,
    to_json(map_from_entries(list_filter(
        map_entries(l.attributes),
        lambda pair: NOT starts_with(pair.key, 'gen_ai.evaluation.') AND pair.key NOT IN ('error.type', 'event.name')
    )))::VARCHAR AS metadata,
    false AS counted,
    'external' AS origin,
    l.attributes['gen_ai.evaluation.score.label'] AS label
FROM (
    SELECT
        *,
        lower(trim(attributes['gen_ai.evaluation.score.label'])) AS plain_label,
        CASE
            WHEN coalesce(attributes['error.type'], attributes['exception.type']) IS NOT NULL THEN 'failed'
            WHEN attributes['gen_ai.evaluation.score.value'] IS NOT NULL THEN CASE
                WHEN abs(TRY_CAST(attributes['gen_ai.evaluation.score.value'] AS DOUBLE)) <= 9007199254740992 -- NaN is greater
                    THEN 'scored'
                ELSE 'failed'
            END
            WHEN plain_label IN ('error', 'nan') THEN 'failed' -- how libraries spell that there is no verdict
            WHEN plain_label IS NULL OR plain_label = 'skipped' THEN 'skipped'
            ELSE 'scored'
        END AS outcome
    FROM log_record
    WHERE event_name = 'gen_ai.evaluation.result'
) AS l
WHERE l.attributes['tracejury.instance'] IS DISTINCT FROM (SELECT instance FROM results_out);
