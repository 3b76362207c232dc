-- Sum the results of a rule in one project by time step, evaluator, service and release. Times are those of the judged
-- span or trace, or of the judgement with $judged. With $counted, only scores that monitors count are summed. `points`
-- is a histogram of scores from 0 to 1 in buckets of 1/32. Each bucket has its count and the sum of the offsets from
-- its lower bound, in units of 1/65536. Of expired traces only daily sums are known. Counted annotation scores are
-- included, each question as an evaluator.
WITH each_one AS (
    SELECT
        date_trunc($step, CASE WHEN $judged THEN e.created_at ELSE coalesce(e.started_at, e.created_at) END) AS step_at,
        e.fingerprint,
        e.service,
        e.release,
        e.outcome,
        e.passed,
        e.cost_usd,
        CASE WHEN e.cost_usd IS NULL THEN e.judge_calls END AS unpriced_calls,
        e.threshold,
        e.number,
        e.created_at,
        CASE WHEN e.outcome = 'scored' AND e.score BETWEEN 0 AND 1
            THEN (e.score * 65536)::INTEGER -- rounds to the nearest, to the even one in the middle
        END AS place,
        CASE WHEN $counted AND e.outcome = 'scored' THEN e.counted ELSE s.job_id IS NULL END AS counts,
        e.counted
    FROM evaluation AS e
    LEFT JOIN (SELECT DISTINCT job_id FROM superseded) AS s ON s.job_id = e.job_id
    WHERE e.tenant = $tenant
        AND e.project IS NOT DISTINCT FROM $project
        AND e.revision IN (SELECT revision FROM rule_revision WHERE rule_id = $rule_id)
        AND e.created_at >= make_timestamp($from_us::BIGINT) -- nothing is judged before it started
        AND ($judged OR coalesce(e.started_at, e.created_at) >= make_timestamp($from_us::BIGINT))
    UNION ALL BY NAME
    SELECT
        date_trunc($step, CASE WHEN $judged THEN c.created_at ELSE coalesce(c.started_at, c.created_at) END) AS step_at,
        'scores:' || c.name AS fingerprint,
        c.service,
        c.release,
        'scored' AS outcome,
        c.passed,
        CASE
            WHEN c.score BETWEEN 0 AND 1 THEN (c.score * 65536)::INTEGER
            WHEN c.passed IS NOT NULL THEN c.passed::INTEGER * 65536
        END AS place,
        c.number,
        c.created_at,
        true AS counts,
        true AS counted
    FROM counted_score AS c
    WHERE c.tenant = $tenant
        AND c.project IS NOT DISTINCT FROM $project
        AND c.revision IN (SELECT revision FROM rule_revision WHERE rule_id = $rule_id)
        AND c.created_at >= make_timestamp($from_us::BIGINT)
        AND ($judged OR coalesce(c.started_at, c.created_at) >= make_timestamp($from_us::BIGINT))
),
by_point AS (
    SELECT
        step_at,
        fingerprint,
        service,
        release,
        place >> 11 AS point,
        sum(place & 2047) FILTER (WHERE counts) AS above,
        count(*) FILTER (WHERE counts AND outcome = 'scored') AS scored,
        count(*) FILTER (WHERE counted AND outcome = 'scored') AS counted,
        count(*) FILTER (WHERE counts AND outcome = 'failed') AS failed,
        count(*) FILTER (WHERE counts AND outcome = 'skipped') AS skipped,
        count(*) FILTER (WHERE counts AND passed) AS passed,
        count(*) FILTER (WHERE counts AND NOT passed) AS not_passed,
        sum(cost_usd) AS cost_usd,
        sum(unpriced_calls) AS unpriced_calls,
        max(threshold) AS threshold,
        min(number) AS first_number,
        min(created_at) AS first_at,
        max(created_at) AS last_at
    FROM each_one
    GROUP BY ALL
),
steps AS (
    SELECT
        step_at,
        fingerprint,
        service,
        release,
        sum(scored) AS scored,
        sum(counted) AS counted,
        sum(failed) AS failed,
        sum(skipped) AS skipped,
        sum(passed) AS passed,
        sum(not_passed) AS not_passed,
        sum(cost_usd) AS cost_usd,
        sum(unpriced_calls) AS unpriced_calls,
        max(threshold) AS threshold,
        min(first_number) AS first_number,
        min(first_at) AS first_at,
        max(last_at) AS last_at,
        0 AS summed,
        0.0 AS score_sum,
        list({'point': point, 'scored': scored, 'above': above::BIGINT}) FILTER (
            WHERE point IS NOT NULL AND scored > 0
        ) AS points
    FROM by_point
    GROUP BY ALL
    UNION ALL
    SELECT
        date_trunc($step, (CASE WHEN $judged THEN d.day ELSE coalesce(d.started_day, d.day) END)::TIMESTAMP) AS step_at,
        d.fingerprint,
        d.service,
        d.release,
        sum(d.scored) AS scored,
        sum(d.counted) AS counted,
        sum(d.failed) AS failed,
        sum(d.skipped) AS skipped,
        sum(d.passed) AS passed,
        sum(d.not_passed) AS not_passed,
        sum(d.cost_usd) AS cost_usd,
        sum(d.unpriced_calls) AS unpriced_calls,
        NULL AS threshold,
        NULL AS first_number,
        min(d.day)::TIMESTAMP AS first_at,
        max(d.day)::TIMESTAMP AS last_at,
        sum(d.scored) AS summed,
        sum(d.score_sum) AS score_sum,
        NULL AS points
    FROM evaluation_day AS d
    WHERE d.tenant = $tenant
        AND d.project IS NOT DISTINCT FROM $project
        AND d.revision IN (SELECT revision FROM rule_revision WHERE rule_id = $rule_id)
        AND d.day >= make_timestamp($from_us::BIGINT)::DATE
        AND ($judged OR coalesce(d.started_day, d.day) >= make_timestamp($from_us::BIGINT)::DATE)
        AND $step <> 'hour'
        AND NOT $counted -- which of them were counted is a number alone
    GROUP BY ALL
)
SELECT
    epoch_us(step_at) AS at_us,
    fingerprint,
    service,
    release,
    scored::BIGINT AS scored,
    counted::BIGINT AS counted,
    failed::BIGINT AS failed,
    skipped::BIGINT AS skipped,
    passed::BIGINT AS passed,
    not_passed::BIGINT AS not_passed,
    coalesce(cost_usd, 0) AS cost_usd,
    coalesce(unpriced_calls, 0)::BIGINT AS unpriced_calls,
    threshold,
    coalesce(first_number, 0) AS first_number,
    epoch_us(first_at) AS first_us,
    epoch_us(last_at) AS last_us,
    summed::BIGINT AS summed,
    score_sum,
    points
FROM steps
ORDER BY step_at, first_at, first_number, fingerprint, service, release;
