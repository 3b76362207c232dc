-- Count the counted results since an instant, by rule and outcome; with a tenant, those of its traces. One statement
-- serves the numbers and the sums of rules, so that a superseded result counts in neither.
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
