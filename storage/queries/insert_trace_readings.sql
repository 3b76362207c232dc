-- Store what was read of whole traces.
INSERT INTO trace_reading BY NAME
SELECT *
FROM incoming_traces;
