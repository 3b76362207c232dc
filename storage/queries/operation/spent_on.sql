-- What judges took on a day; a call that is not settled counts as what was set aside for it.
SELECT
    count(*),
    coalesce(sum(coalesce(tokens, reserved_tokens)), 0)::BIGINT,
    coalesce(sum(coalesce(usd, reserved_usd)), 0)
FROM judge_call
WHERE "day" = $day;
