-- The log records that belong to some spans; of scores nothing is read.
SELECT tenant, trace_id, span_id, event_name, logged_at, body, body_type, attributes, attribute_types
FROM log_record
SEMI JOIN logged_spans USING (tenant, trace_id, span_id)
WHERE event_name <> 'gen_ai.evaluation.result'
ORDER BY batch, log_record.rowid;
