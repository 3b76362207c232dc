-- Return the log records of the selected traces in order of arrival; score events are omitted.
SELECT *
FROM log_record
SEMI JOIN wanted_traces USING (tenant, trace_id)
WHERE event_name <> 'gen_ai.evaluation.result'
LIMIT $rows;
