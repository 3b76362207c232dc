-- Return for each trace whether one of its spans meets all clauses of a rule, and the last clause that the best span
-- reached.
SELECT
    trace,
    bool_or(clause IS NULL) AS holds,
    max(clause)::USMALLINT AS clause,
    false AS is_undecided
FROM (
    SELECT trace, /* clause */ AS clause
    FROM looked_at
    WHERE $tenant::VARCHAR IS NULL OR tenant = $tenant
)
GROUP BY trace;
