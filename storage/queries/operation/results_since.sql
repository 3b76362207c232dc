-- How many results that count were made since an instant, by rule and what came of them; with a tenant, of its traces.
-- The one statement for the numbers of rules and for their sums: a result that a later one replaced counts in none of them.
SELECT r.rule_id, e.counted, sum(e.amount)::BIGINT
FROM (
    SELECT
        revision,
        CASE WHEN outcome <> 'scored' THEN outcome WHEN passed THEN 'passed' ELSE 'not_passed' END AS counted,
        count(*) AS amount
    FROM evaluation
    WHERE created_at >= make_timestamp($since_us::BIGINT)
        AND ($tenant::VARCHAR IS NULL OR tenant = $tenant)
        AND job_id NOT IN (SELECT job_id FROM superseded)
    GROUP BY ALL
) AS e
INNER JOIN rule_revision AS r USING (revision)
GROUP BY r.rule_id, e.counted;
