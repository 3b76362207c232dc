-- Return the latest scores from 0 to 1 of releases of one service, by one evaluator or for one question of votes and
-- external scores. Statistical tests need them one by one.
WITH given AS (
    SELECT e.release, e.score, e.created_at, e.job_id AS place
    FROM evaluation AS e
    WHERE e.tenant = $tenant
        AND e.project IS NOT DISTINCT FROM $project
        AND e.revision IN (SELECT revision FROM rule_revision WHERE rule_id = $rule_id)
        AND CASE WHEN $judged THEN e.created_at ELSE coalesce(e.started_at, e.created_at) END
            >= make_timestamp($from_us::BIGINT)
        AND e.fingerprint = $fingerprint
        AND coalesce(e.service, '') = $service
        AND list_contains($releases::VARCHAR[], e.release)
        AND e.outcome = 'scored'
        AND e.score BETWEEN 0 AND 1
        AND CASE WHEN $counted THEN e.counted ELSE e.job_id NOT IN (SELECT job_id FROM superseded) END
    UNION ALL
    SELECT c.release, CASE WHEN c.score BETWEEN 0 AND 1 THEN c.score ELSE c.passed::INTEGER END, c.created_at, c.number
    FROM counted_score AS c
    WHERE c.tenant = $tenant
        AND c.project IS NOT DISTINCT FROM $project
        AND c.revision IN (SELECT revision FROM rule_revision WHERE rule_id = $rule_id)
        AND CASE WHEN $judged THEN c.created_at ELSE coalesce(c.started_at, c.created_at) END
            >= make_timestamp($from_us::BIGINT)
        AND 'scores:' || c.name = $fingerprint
        AND coalesce(c.service, '') = $service
        AND list_contains($releases::VARCHAR[], c.release)
)
SELECT release, score
FROM given
QUALIFY row_number() OVER (PARTITION BY release ORDER BY created_at DESC, place DESC) <= $each
ORDER BY created_at, place;
