-- What was spent on a day, by rule, project and connection? What was never settled counts as it was set aside.
SELECT
    tenant,
    rule_id,
    project,
    connection_id,
    count(*) FILTER (WHERE outcome IS DISTINCT FROM 'unsent') AS calls,
    sum(coalesce(tokens, reserved_tokens))::BIGINT AS tokens,
    sum(round(coalesce(usd, reserved_usd) * 1e9)::BIGINT)::BIGINT AS nano_usd,
    count(*) FILTER (WHERE outcome IS NULL) AS unsettled
FROM judge_call
WHERE "day" = $day::DATE
GROUP BY ALL
ORDER BY ALL
