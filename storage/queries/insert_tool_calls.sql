-- Store what was read of whole traces.
INSERT INTO tool_call BY NAME
SELECT *
FROM incoming_tool_calls;
