-- Store the calls of tools in traces.
INSERT INTO tool_call BY NAME
SELECT *
FROM incoming_tool_calls;
