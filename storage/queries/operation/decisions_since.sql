-- How many decisions each rule made since an instant, by what they are; with a tenant, those about its spans.
-- If that is NULL, DuckDB does not look at spans at all.
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
