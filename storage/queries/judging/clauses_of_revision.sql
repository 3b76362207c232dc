-- Count the decisions of a revision since an instant, by the clause that filtered.
SELECT
    ['filtered', 'sampled_out', 'matched', 'undecided'][d.outcome + 1] AS decision,
    r.clauses[d.clause + 1] AS clause,
    d.amount
FROM (
    SELECT outcome, clause, count(*) AS amount
    FROM decision
    WHERE revision = $revision AND decided_at >= make_timestamp($since_us::BIGINT)
    GROUP BY ALL
) AS d
CROSS JOIN (SELECT clauses FROM rule_revision WHERE revision = $revision) AS r
ORDER BY d.outcome, d.clause;
