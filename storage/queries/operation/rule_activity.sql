-- What each rule did since an instant, as counts by rule and what is counted; with a tenant, of what is about its spans.
-- Where that is NULL, DuckDB does not look at spans at all.
SELECT rule_id, counted, sum(amount)::DOUBLE
FROM (
    SELECT r.rule_id, ['filtered', 'sampled_out', 'matched', 'undecided'][d.outcome + 1] AS counted, d.amount
    FROM (
        SELECT revision, outcome, count(*) AS amount
        FROM decision
        WHERE decided_at >= make_timestamp($since_us::BIGINT)
            AND ($tenant::VARCHAR IS NULL OR seq IN (SELECT seq FROM span WHERE tenant = $tenant))
        GROUP BY ALL
    ) AS d
    JOIN rule_revision AS r USING (revision)
    UNION ALL
    SELECT r.rule_id, e.counted, e.amount
    FROM (
        SELECT
            revision,
            CASE WHEN outcome <> 'scored' THEN outcome WHEN passed THEN 'passed' ELSE 'not_passed' END AS counted,
            count(*) AS amount
        FROM evaluation
        WHERE created_at >= make_timestamp($since_us::BIGINT) AND ($tenant::VARCHAR IS NULL OR tenant = $tenant)
        GROUP BY ALL
    ) AS e
    JOIN rule_revision AS r USING (revision)
)
GROUP BY rule_id, counted;
