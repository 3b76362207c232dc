-- Sum the cost of a day by rule, project and connection, and the amount reserved for unsettled requests. $tenant NULL
-- sums all tenants. A request that used no tokens and was not answered counts as failed, not as a call. A request that
-- was not sent is neither.
SELECT
    tenant,
    rule_id,
    project,
    connection_id,
    count(*) FILTER (WHERE outcome = 'answered' OR (outcome IS NOT NULL AND tokens > 0)) AS calls,
    count(*) FILTER (WHERE usd IS NULL AND (outcome = 'answered' OR (outcome IS NOT NULL AND tokens > 0))) AS unpriced_calls,
    count(*) FILTER (WHERE outcome NOT IN ('answered', 'unsent') AND tokens = 0) AS failed_calls,
    coalesce(sum(tokens) FILTER (WHERE outcome IS NOT NULL), 0)::HUGEINT AS tokens,
    coalesce(sum(round(coalesce(usd, reserved_usd) * 1e9)::HUGEINT) FILTER (WHERE outcome IS NOT NULL), 0)::HUGEINT AS nano_usd,
    count(*) FILTER (WHERE outcome IS NULL) AS held_calls,
    coalesce(sum(reserved_tokens) FILTER (WHERE outcome IS NULL), 0)::HUGEINT AS held_tokens,
    coalesce(sum(round(reserved_usd * 1e9)::HUGEINT) FILTER (WHERE outcome IS NULL), 0)::HUGEINT AS held_nano_usd
FROM judge_call
WHERE "day" = $day::DATE AND ($tenant::VARCHAR IS NULL OR tenant = $tenant)
GROUP BY ALL
ORDER BY ALL
