-- Calls of tools whose results came in another trace. `call_key` is a hash of id, name and arguments, of calls without a
-- result; the trace that was sent the result has a row with the same key, and `is_sent`, which is no call of its own. NULL
-- and false until traces are added up again.
ALTER TABLE tool_call ADD COLUMN call_key UBIGINT;
ALTER TABLE tool_call ADD COLUMN is_sent BOOLEAN DEFAULT false;
-- Calls of deleted traces: those that an answer requested were kept if its span had ended after the last one began.
DELETE FROM tool_call AS c
WHERE NOT EXISTS (SELECT 1 FROM trace_part AS p WHERE p.tenant = c.tenant AND p.trace_id = c.trace_id);
