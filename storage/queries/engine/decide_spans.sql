-- Decide on each span by some rules of one tenant, in their order: return the first clause that the span fails, and
-- whether its trace is sampled.
SELECT
    seq/* outcomes */
FROM (
    SELECT
        seq,
        trace_id/* clauses */
    FROM looked_at
    WHERE $tenant::VARCHAR IS NULL OR tenant = $tenant
);
