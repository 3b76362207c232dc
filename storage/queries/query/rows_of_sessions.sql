-- Return the sums of each trace of sessions, and the bounds of its rows. The sessions are those with one id, of a
-- tenant, plus shared ones (NULL: all tenants), or the given ones. A line that ends with `one` or `wanted` is kept only
-- for that kind of selection.
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
