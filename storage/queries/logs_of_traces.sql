-- Log records of the wanted traces, as they came.
SELECT *
FROM log_record
SEMI JOIN wanted_traces USING (tenant, trace_id)
LIMIT $rows;
