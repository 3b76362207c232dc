-- The pass rate of each judge of a rule, and the corrected rate estimated from votes on the question `verdict`. Each
-- verdict's labels represent all results with that verdict, with one success and one failure added for the 95 %
-- interval. Excluded are labels of targets that queues selected by uncertainty, disagreement or another rule's
-- verdict, and of examples in the judge's prompt. NULL until people have passed five and failed five.
CREATE OR REPLACE VIEW judge_rates AS
WITH said AS NOT MATERIALIZED (
    SELECT tenant, trace_id, span_id, session_id, source, author, arg_max(lower(label), number) AS label
    FROM annotation
    WHERE name = 'verdict' AND target IN ('trace', 'span', 'session') AND source IN ('person', 'adjudicator')
    GROUP BY tenant, trace_id, span_id, session_id, source, author
    HAVING NOT arg_max(withdrawn, number)
),
votes AS NOT MATERIALIZED (
    SELECT
        tenant,
        trace_id,
        span_id,
        session_id,
        bool_and(label IN ('correct', 'pass', 'yes', 'up')) FILTER (WHERE source = 'adjudicator') AS decided,
        count(*) FILTER (WHERE source = 'person' AND label IN ('correct', 'pass', 'yes', 'up')) AS passes,
        count(*) FILTER (WHERE source = 'person' AND label IN ('incorrect', 'fail', 'no', 'down')) AS fails
    FROM said
    WHERE label IN ('correct', 'pass', 'yes', 'up', 'incorrect', 'fail', 'no', 'down')
    GROUP BY tenant, trace_id, span_id, session_id
),
queued AS NOT MATERIALIZED (
    SELECT
        e.tenant,
        e.trace_id,
        e.span_id,
        bool_or(e.reason IN ('hand', 'random')) AS by_chance,
        list(e.rule_id) FILTER (WHERE e.reason = 'failing') AS failed_rules
    FROM review_entry AS e
    INNER JOIN review_queue AS q ON q.queue_id = e.queue_id
    WHERE q.question = 'verdict' AND e.trace_id IS NOT NULL
    GROUP BY e.tenant, e.trace_id, e.span_id
),
results AS NOT MATERIALIZED (
    SELECT
        e.tenant,
        e.project,
        r.rule_id,
        r.rule,
        e.fingerprint,
        e.passed,
        CASE
            WHEN list_contains(coalesce(json_extract_string(r.document, '$.config.examples[*].traceId'), []), e.trace_id)
                THEN NULL
            WHEN q.trace_id IS NOT NULL AND NOT q.by_chance AND NOT coalesce(list_contains(q.failed_rules, r.rule_id), false)
                THEN NULL
            WHEN v.decided IS NOT NULL THEN v.decided
            WHEN v.passes <> v.fails THEN v.passes > v.fails
        END AS people
    FROM evaluation AS e
    INNER JOIN rule_revision AS r ON r.revision = e.revision
    LEFT JOIN votes AS v
        ON v.tenant = e.tenant
        AND v.trace_id = e.trace_id
        AND v.span_id IS NOT DISTINCT FROM e.span_id
        AND v.session_id IS NOT DISTINCT FROM e.session_id
    LEFT JOIN queued AS q
        ON q.tenant = e.tenant
        AND q.trace_id = e.trace_id
        AND q.span_id IS NOT DISTINCT FROM e.span_id
        AND e.session_id IS NULL
    WHERE e.outcome = 'scored'
        AND e.passed IS NOT NULL
        AND e.fingerprint IS NOT NULL
        AND e.job_id NOT IN (SELECT job_id FROM superseded)
),
counts AS NOT MATERIALIZED (
    SELECT
        tenant,
        project,
        rule_id,
        max(rule) AS rule,
        fingerprint,
        count(*) AS results,
        count(*) FILTER (WHERE passed) AS passed,
        count(*) FILTER (WHERE people AND passed) AS passed_passed,
        count(*) FILTER (WHERE people AND NOT passed) AS passed_failed,
        count(*) FILTER (WHERE NOT people AND passed) AS failed_passed,
        count(*) FILTER (WHERE NOT people AND NOT passed) AS failed_failed
    FROM results
    GROUP BY tenant, project, rule_id, fingerprint
),
shares AS NOT MATERIALIZED (
    SELECT
        *,
        passed / results AS pass_rate,
        passed_passed + passed_failed + failed_passed + failed_failed AS labels,
        least(passed_passed + passed_failed, failed_passed + failed_failed) >= 5
        AND least(passed_passed + failed_passed, passed_failed + failed_failed) >= 2 AS is_known,
        (passed_passed + 1) / (passed_passed + failed_passed + 2) AS right_of_passed,
        (passed_failed + 1) / (passed_failed + failed_failed + 2) AS right_of_failed
    FROM counts
),
rates AS NOT MATERIALIZED (
    SELECT
        *,
        CASE WHEN is_known THEN pass_rate * passed_passed / (passed_passed + failed_passed) END AS passes_of_passed,
        CASE WHEN is_known THEN (1 - pass_rate) * passed_failed / (passed_failed + failed_failed) END AS passes_of_failed,
        pass_rate * right_of_passed + (1 - pass_rate) * right_of_failed AS middle,
        1.959964 * sqrt(
            pass_rate ** 2 * right_of_passed * (1 - right_of_passed) / (passed_passed + failed_passed + 2)
            + (1 - pass_rate) ** 2 * right_of_failed * (1 - right_of_failed) / (passed_failed + failed_failed + 2)
            + pass_rate * (1 - pass_rate) * (right_of_passed - right_of_failed) ** 2 / results
        ) AS reach
    FROM shares
),
errors AS NOT MATERIALIZED (
    SELECT
        *,
        passes_of_passed + passes_of_failed AS people_pass,
        passes_of_passed / nullif(passes_of_passed + passes_of_failed, 0) AS sensitivity,
        (1 - pass_rate - passes_of_failed) / nullif(1 - passes_of_passed - passes_of_failed, 0) AS specificity
    FROM rates
)
SELECT
    tenant,
    project,
    rule_id,
    rule,
    fingerprint,
    results,
    pass_rate,
    labels,
    passed_passed,
    passed_failed,
    failed_passed,
    failed_failed,
    sensitivity,
    specificity,
    sensitivity + specificity < 1.1 AS useless,
    CASE WHEN sensitivity + specificity >= 1.1 THEN people_pass END AS corrected,
    CASE WHEN sensitivity + specificity >= 1.1 THEN greatest(0.0, least(middle - reach, people_pass)) END AS corrected_low,
    CASE WHEN sensitivity + specificity >= 1.1 THEN least(1.0, greatest(middle + reach, people_pass)) END AS corrected_high
FROM errors;
