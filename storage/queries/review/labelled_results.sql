-- Return the results of a rule that were voted on, with the counted votes, and the reasons of their entries in queues
-- with that question. `whole`: the queue samples from all results of the rule.
WITH annotation AS MATERIALIZED (
    SELECT * FROM annotation WHERE tenant = $tenant AND name = $name AND trace_id IS NOT NULL
),
annotations AS ($annotations),
votes AS (
    SELECT
        trace_id,
        span_id,
        session_id,
        bool_and(passed) FILTER (WHERE source = 'adjudicator') AS decided,
        list(passed ORDER BY number) FILTER (WHERE source <> 'adjudicator' AND passed IS NOT NULL) AS votes,
        count(*) FILTER (WHERE passed IS NULL) AS unsure
    FROM annotations
    WHERE tenant = $tenant
        AND name = $name
        AND target IN ('trace', 'span', 'session')
        AND number IS NOT NULL
        AND list_contains($sources, source)
        AND NOT superseded
        AND NOT withdrawn
    GROUP BY trace_id, span_id, session_id
),
feeds AS (
    SELECT queue_id, unnest(from_json(feeds, '[{"ruleId": "VARCHAR", "policy": "VARCHAR"}]')) AS feed
    FROM review_queue
    WHERE tenant IN ($tenant, '') AND question = $name
),
whole AS (
    SELECT DISTINCT queue_id FROM feeds WHERE feed.ruleId = $rule_id AND feed.policy = 'random'
),
queued AS (
    SELECT
        e.trace_id,
        e.span_id,
        list(
            {
                'queue_id': e.queue_id,
                'reason': e.reason,
                'is_own': e.rule_id IS NOT DISTINCT FROM $rule_id,
                'whole': e.queue_id IN (SELECT queue_id FROM whole),
                'probability': e.probability
            }
        ) AS entries
    FROM review_entry AS e
    INNER JOIN review_queue AS q ON q.queue_id = e.queue_id
    WHERE e.tenant = $tenant AND q.question = $name AND e.target IN ('trace', 'span')
    GROUP BY e.trace_id, e.span_id
)
SELECT
    e.fingerprint,
    e.trace_id,
    e.span_id,
    e.session_id,
    e.service,
    e.release,
    e.project,
    e.seq,
    e.cost_usd,
    list_contains(coalesce(json_extract_string(r.document, '$.config.examples[*].traceId'), []), e.trace_id) AS is_example,
    e.passed AS judged,
    e.score,
    e.reason,
    epoch_us(e.created_at) AS created_us,
    v.decided,
    v.votes,
    v.unsure,
    q.entries
FROM evaluation AS e
INNER JOIN rule_revision AS r ON r.revision = e.revision AND r.rule_id = $rule_id
INNER JOIN votes AS v
    ON v.trace_id = e.trace_id
    AND v.span_id IS NOT DISTINCT FROM e.span_id
    AND v.session_id IS NOT DISTINCT FROM e.session_id
LEFT JOIN queued AS q ON q.trace_id = e.trace_id AND q.span_id IS NOT DISTINCT FROM e.span_id AND e.session_id IS NULL
WHERE e.tenant = $tenant
    AND ($project::VARCHAR IS NULL OR e.project = $project)
    AND e.outcome = 'scored'
    AND e.passed IS NOT NULL
    AND e.fingerprint IS NOT NULL
    AND ($from_us::BIGINT IS NULL OR e.created_at >= make_timestamp($from_us::BIGINT))
    AND e.job_id NOT IN (SELECT job_id FROM superseded)
ORDER BY e.created_at DESC, e.job_id
LIMIT $rows;
