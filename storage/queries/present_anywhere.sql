-- Which of the incoming keys are stored already, whenever they start.
SELECT DISTINCT s.tenant, s.trace_id, s.span_id
FROM span AS s
SEMI JOIN incoming_keys AS k USING (tenant, trace_id, span_id);
