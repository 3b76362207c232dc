-- Return the counted results of a rule in one project, latest or worst first. A filter that is NULL matches all. Times
-- are those of the judged span or trace, or of the judgement with $judged. With $counted, only scores that monitors
-- count are returned.
WITH shown AS (
    SELECT e.rowid AS place
    FROM evaluation AS e
    WHERE e.tenant = $tenant
        AND e.project IS NOT DISTINCT FROM $project
        AND e.revision IN (SELECT revision FROM rule_revision WHERE rule_id = $rule_id)
        AND (
            $from_us::BIGINT IS NULL
            OR CASE WHEN $judged THEN e.created_at ELSE coalesce(e.started_at, e.created_at) END
            >= make_timestamp($from_us::BIGINT)
        )
        AND (
            $to_us::BIGINT IS NULL
            OR CASE WHEN $judged THEN e.created_at ELSE coalesce(e.started_at, e.created_at) END
            < make_timestamp($to_us::BIGINT)
        )
        AND ($fingerprint::VARCHAR IS NULL OR e.fingerprint = $fingerprint)
        AND ($service::VARCHAR IS NULL OR coalesce(e.service, '') = $service)
        AND ($release::VARCHAR IS NULL OR e.release = $release)
        AND (NOT $unreleased OR e.release IS NULL)
        AND ($outcome::VARCHAR IS NULL OR e.outcome = $outcome)
        AND ($passed::BOOLEAN IS NULL OR e.passed = $passed)
        AND ($low::DOUBLE IS NULL OR e.score >= $low)
        AND ($high::DOUBLE IS NULL OR e.score < $high)
        AND CASE
            WHEN $counted AND e.outcome = 'scored' THEN e.counted
            ELSE e.job_id NOT IN (SELECT job_id FROM superseded)
        END
    ORDER BY
        CASE $worst WHEN 'lowest' THEN e.passed END NULLS LAST,
        CASE $worst WHEN 'lowest' THEN e.score WHEN 'highest' THEN -e.score END NULLS LAST,
        CASE WHEN $judged THEN e.created_at ELSE coalesce(e.started_at, e.created_at) END DESC,
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
    e.service,
    e.release,
    e.fingerprint,
    e.cost_usd,
    epoch_us(e.created_at) AS created_us,
    epoch_us(e.started_at) AS started_us
FROM evaluation AS e
WHERE e.rowid IN (SELECT place FROM shown)
ORDER BY
    CASE $worst WHEN 'lowest' THEN e.passed END NULLS LAST,
    CASE $worst WHEN 'lowest' THEN e.score WHEN 'highest' THEN -e.score END NULLS LAST,
    CASE WHEN $judged THEN e.created_at ELSE coalesce(e.started_at, e.created_at) END DESC,
    e.job_id DESC;
