-- Count the spans or traces that a rule matched in a window, including those sampled out.
SELECT
    count(*) AS "count",
    0 AS failed,
    count(*)::DOUBLE AS amount
FROM decision AS d
INNER JOIN rule_revision AS v ON v.revision = d.revision
INNER JOIN span AS s ON s.seq = d.seq -- a shared rule matches in all tenants
WHERE
    d.decided_at >= make_timestamp($from_us::BIGINT)
    AND d.decided_at < make_timestamp($until_us::BIGINT)
    AND d.outcome IN (1, 2)
    AND s.tenant = $tenant
    AND (v.rule_id = $rule OR v.rule = $rule);
