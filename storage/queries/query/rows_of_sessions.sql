-- What was added up of each trace of the wanted sessions, and where the rows are.
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
SEMI JOIN wanted_sessions USING (tenant, session_id);
