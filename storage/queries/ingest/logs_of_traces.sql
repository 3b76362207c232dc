-- Log records of the wanted traces, as they came; but scores, of which nothing is read.
SELECT *
FROM log_record
SEMI JOIN wanted_traces USING (tenant, trace_id)
WHERE event_name <> 'gen_ai.evaluation.result'
LIMIT $rows;
