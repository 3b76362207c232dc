-- Return votes and external scores that count for one question, latest or worst first, in the columns of a rule's
-- results. A filter that is NULL matches all.
SELECT
    c.trace_id,
    c.span_id,
    NULL::VARCHAR AS session_id,
    'scored' AS outcome,
    c.score,
    c.passed,
    c.note AS reason,
    NULL::VARCHAR AS error_kind,
    c.service,
    c.release,
    'scores:' || c.name AS fingerprint,
    NULL::DOUBLE AS cost_usd,
    epoch_us(c.created_at) AS created_us,
    epoch_us(c.started_at) AS started_us
FROM counted_score AS c
WHERE c.tenant = $tenant
    AND c.project IS NOT DISTINCT FROM $project
    AND c.revision IN (SELECT revision FROM rule_revision WHERE rule_id = $rule_id)
    AND (
        $from_us::BIGINT IS NULL
        OR CASE WHEN $judged THEN c.created_at ELSE coalesce(c.started_at, c.created_at) END
        >= make_timestamp($from_us::BIGINT)
    )
    AND (
        $to_us::BIGINT IS NULL
        OR CASE WHEN $judged THEN c.created_at ELSE coalesce(c.started_at, c.created_at) END
        < make_timestamp($to_us::BIGINT)
    )
    AND 'scores:' || c.name = $fingerprint::VARCHAR
    AND ($service::VARCHAR IS NULL OR coalesce(c.service, '') = $service)
    AND ($release::VARCHAR IS NULL OR c.release = $release)
    AND (NOT $unreleased OR c.release IS NULL)
    AND ($outcome::VARCHAR IS NULL OR $outcome = 'scored')
    AND $counted IS NOT NULL -- monitors count all of them
    AND ($passed::BOOLEAN IS NULL OR c.passed = $passed)
    AND ($low::DOUBLE IS NULL OR coalesce(c.score, c.passed::INTEGER) >= $low)
    AND ($high::DOUBLE IS NULL OR coalesce(c.score, c.passed::INTEGER) < $high)
ORDER BY
    CASE $worst WHEN 'lowest' THEN c.passed END NULLS LAST,
    CASE $worst WHEN 'lowest' THEN c.score WHEN 'highest' THEN -c.score END NULLS LAST,
    c.number DESC
LIMIT $limit OFFSET $offset;
