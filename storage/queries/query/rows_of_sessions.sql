-- What was added up of each trace of sessions, and where the rows are: of those with one id, of a tenant and shared ones (NULL:
-- of all), or of the wanted ones. A line that ends with `one` or `wanted` is left out where the other is asked.
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
    span_count,
    rowid AS place
FROM trace_reading
SEMI JOIN wanted_sessions USING (tenant, session_id) -- wanted
WHERE session_id = $session_id AND ($tenant::VARCHAR IS NULL OR tenant IN ($tenant, '')) -- one
;
