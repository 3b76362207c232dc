-- The keys of the spans that the latest log records belong to, the events and the commits; of scores nothing is read.
SELECT tenant, trace_id, span_id, event_name, batch
FROM log_record
WHERE length(span_id) = 16 AND event_name <> 'gen_ai.evaluation.result'
ORDER BY rowid DESC
LIMIT $rows;
