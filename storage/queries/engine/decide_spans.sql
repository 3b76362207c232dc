-- What becomes of each span by some rules of one tenant, in their order: by each the first clause that it does not
-- meet, and whether its trace is sampled.
SELECT
    seq/* outcomes */
FROM (
    SELECT
        seq,
        trace_id/* clauses */
    FROM looked_at
    WHERE $tenant::VARCHAR IS NULL OR tenant = $tenant
);
