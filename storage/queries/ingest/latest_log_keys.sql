-- Return the span keys of the latest log records, with their events and commits; score events are omitted.
SELECT tenant, trace_id, span_id, event_name, batch
FROM log_record
WHERE length(span_id) = 16 AND event_name <> 'gen_ai.evaluation.result'
ORDER BY rowid DESC
LIMIT $rows;
