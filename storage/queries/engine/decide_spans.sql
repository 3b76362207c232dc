-- What becomes of each span by one rule, in their order: the first clause that it does not meet, and whether its trace is
-- sampled.
SELECT
    seq,
    CASE WHEN clause IS NOT NULL THEN 0 WHEN /* sampled */ THEN 2 ELSE 1 END::UTINYINT AS outcome,
    clause::USMALLINT AS clause
FROM (
    SELECT seq, trace_id, $sampled_below::VARCHAR AS sampled_below, /* clause */ AS clause
    FROM looked_at
    WHERE $tenant::VARCHAR IS NULL OR tenant = $tenant
);
