-- Count each rule's decisions since an instant, by kind; with a tenant, those about its spans. If $tenant is NULL,
-- DuckDB does not read spans at all.
SELECT r.rule_id, ['filtered', 'sampled_out', 'matched', 'undecided'][d.outcome + 1], sum(d.amount)::BIGINT
FROM (
    SELECT revision, outcome, count(*) AS amount
    FROM decision
    WHERE decided_at >= make_timestamp($since_us::BIGINT)
        AND ($tenant::VARCHAR IS NULL OR seq IN (SELECT seq FROM span WHERE tenant = $tenant))
    GROUP BY ALL
) AS d
INNER JOIN rule_revision AS r USING (revision)
GROUP BY ALL;
