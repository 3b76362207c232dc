-- Results of a rule about one project that count, one by one, the latest first, or the worst; a filter that is NULL lets
-- all pass.
WITH shown AS (
    SELECT e.rowid AS place
    FROM evaluation AS e
    WHERE e.tenant = $tenant
        AND e.project IS NOT DISTINCT FROM $project
        AND e.revision IN (SELECT revision FROM rule_revision WHERE rule_id = $rule_id)
        AND ($from_us::BIGINT IS NULL OR e.created_at >= make_timestamp($from_us::BIGINT))
        AND ($to_us::BIGINT IS NULL OR e.created_at < make_timestamp($to_us::BIGINT))
        AND ($fingerprint::VARCHAR IS NULL OR e.fingerprint = $fingerprint)
        AND ($release::VARCHAR IS NULL OR e.release = $release)
        AND (NOT $unreleased OR e.release IS NULL)
        AND ($outcome::VARCHAR IS NULL OR e.outcome = $outcome)
        AND ($passed::BOOLEAN IS NULL OR e.passed = $passed)
        AND ($low::DOUBLE IS NULL OR e.score >= $low)
        AND ($high::DOUBLE IS NULL OR e.score < $high)
        AND e.job_id NOT IN (SELECT job_id FROM superseded)
    ORDER BY
        CASE $worst WHEN 'lowest' THEN e.passed END NULLS LAST,
        CASE $worst WHEN 'lowest' THEN e.score WHEN 'highest' THEN -e.score END NULLS LAST,
        e.created_at DESC,
        e.job_id DESC
    LIMIT $limit OFFSET $offset
)
SELECT
    e.trace_id,
    e.span_id,
    e.session_id,
    e.outcome,
    e.score,
    e.passed,
    e.reason,
    e.error_kind,
    e.release,
    e.fingerprint,
    e.cost_usd,
    epoch_us(e.created_at) AS created_us
FROM evaluation AS e
WHERE e.rowid IN (SELECT place FROM shown)
ORDER BY
    CASE $worst WHEN 'lowest' THEN e.passed END NULLS LAST,
    CASE $worst WHEN 'lowest' THEN e.score WHEN 'highest' THEN -e.score END NULLS LAST,
    e.created_at DESC,
    e.job_id DESC;
