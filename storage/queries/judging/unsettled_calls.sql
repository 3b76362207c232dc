-- Return unsettled judge requests up to a number, oldest first.
SELECT call_id, "day", tenant, project, rule_id, connection_id, job_id, reserved_tokens, reserved_usd, started_at
FROM judge_call
WHERE outcome IS NULL AND call_id <= $last
ORDER BY call_id
