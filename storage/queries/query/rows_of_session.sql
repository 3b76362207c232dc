-- What was added up of each trace of the sessions with one id, of a tenant and shared ones (NULL: of all), and where the
-- rows are.
SELECT
    tenant,
    session_id,
    trace_id,
    trace_key,
    start_time,
    user_id,
    input_tokens,
    output_tokens,
    cost_usd,
    tool_call_count,
    rowid AS place
FROM trace_reading
WHERE session_id = $session_id AND ($tenant::VARCHAR IS NULL OR tenant IN ($tenant, ''));
