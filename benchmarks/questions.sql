-- what came today, by hour
SELECT date_trunc('hour', start_time::TIMESTAMP) AS hour, count(*) FROM spans
WHERE start_time >= now()::TIMESTAMP - INTERVAL 1 DAY GROUP BY hour ORDER BY hour;
-- calls, tokens and cost by model and day, of a month
SELECT model, start_time::DATE AS day, count(*), sum(input_tokens), sum(output_tokens), sum(cost_usd) FROM spans
WHERE span_type = 'llm' GROUP BY model, day ORDER BY day, model;
-- tokens of all time by provider and model
SELECT provider, model, sum(input_tokens), sum(output_tokens) FROM spans GROUP BY ALL ORDER BY ALL;
-- p50 and p95 of models by day
SELECT model, start_time::DATE AS day, quantile_cont(duration_ms, [0.5, 0.95]) FROM spans
WHERE span_type = 'llm' GROUP BY model, day ORDER BY day, model;
-- p95 by tool, of the calls of a month
SELECT name, count(*), quantile_cont(duration_ms, 0.95), avg(is_error::INT) FROM tool_calls GROUP BY name ORDER BY 2 DESC;
-- the tools that fail most in a week, with one error each
SELECT name, count(*) FILTER (WHERE is_error) AS failed, any_value(error) FROM tool_calls
WHERE start_time >= now()::TIMESTAMP - INTERVAL 7 DAY GROUP BY name ORDER BY failed DESC;
-- errors by release
SELECT service_version, count(*), count(*) FILTER (WHERE status_code = 'ERROR') FROM spans GROUP BY 1 ORDER BY 1;
-- errors by type and day, of two weeks
SELECT error_type, start_time::DATE AS day, count(*) FROM spans
WHERE error IS NOT NULL AND start_time >= now()::TIMESTAMP - INTERVAL 14 DAY GROUP BY ALL ORDER BY day, 3 DESC;
-- the last fifty errors, with what went in
SELECT start_time, name, model, error, input FROM spans WHERE status_code = 'ERROR' ORDER BY start_time DESC LIMIT 50;
-- cost and tokens by user, the hundred dearest
SELECT user_id, sum(cost_usd) AS usd, sum(input_tokens) + sum(output_tokens) AS tokens FROM traces
GROUP BY user_id ORDER BY usd DESC NULLS LAST, tokens DESC LIMIT 100;
-- sessions with the most turns
SELECT session_id, count(*) AS turns, min(start_time), max(end_time) FROM traces
WHERE session_id IS NOT NULL GROUP BY session_id ORDER BY turns DESC, session_id LIMIT 100;
-- the time between the turns of sessions, by day
SELECT start_time::DATE AS day, quantile_cont(pause_ms, 0.5) FROM (
    SELECT start_time, epoch_ms(start_time::TIMESTAMP - lag(start_time::TIMESTAMP) OVER (PARTITION BY session_id ORDER BY start_time)) AS pause_ms
    FROM traces WHERE session_id IS NOT NULL
) GROUP BY day ORDER BY day;
-- each model call of a session beside the one before it, for the sessions of a day
SELECT session_id, model, lag(model) OVER (PARTITION BY session_id ORDER BY start_time) AS model_before, duration_ms FROM spans
WHERE span_type = 'llm' AND start_time >= now()::TIMESTAMP - INTERVAL 1 DAY ORDER BY duration_ms DESC LIMIT 100;
-- a text search in what went in, of a month
SELECT count(*) FROM spans WHERE contains(input, 'refund');
-- a text search in what came out, without case, of a week
SELECT trace_id, span_id, output FROM spans
WHERE output ILIKE '%order missing%' AND start_time >= now()::TIMESTAMP - INTERVAL 7 DAY LIMIT 20;
-- an attribute, counted
SELECT attributes['gen_ai.request.temperature'] AS temperature, count(*) FROM spans GROUP BY 1 ORDER BY 2 DESC LIMIT 20;
-- an attribute of the resource, counted, of a week
SELECT resource_attributes['deployment.environment.name'] AS environment, count(*) FROM spans
WHERE start_time >= now()::TIMESTAMP - INTERVAL 7 DAY GROUP BY 1 ORDER BY 2 DESC;
-- the slowest hundred spans, with their texts
SELECT trace_id, span_id, name, duration_ms, left(input, 200), left(output, 200) FROM spans ORDER BY duration_ms DESC LIMIT 100;
-- how many spans a trace has
SELECT span_count, count(*) FROM traces GROUP BY 1 ORDER BY 1;
-- traces that took long and cost much
SELECT trace_id, duration_ms, cost_usd, input_tokens FROM traces
WHERE duration_ms > 2500 ORDER BY input_tokens DESC NULLS LAST LIMIT 50;
-- pass rate by rule and day
SELECT rule, created_at::DATE AS day, count(*), avg(passed::INT) FROM evaluations
WHERE NOT superseded GROUP BY ALL ORDER BY day, rule;
-- pass rate by the model of the span that was judged
SELECT s.model, count(*), avg(e.passed::INT) FROM evaluations AS e JOIN spans AS s USING (tenant, trace_id, span_id)
WHERE NOT e.superseded AND s.start_time >= now()::TIMESTAMP - INTERVAL 3 DAY GROUP BY s.model ORDER BY 2 DESC;
-- what the worst spans said, by their scores
SELECT e.score, e.reason, s.name, left(s.output, 300) FROM evaluations AS e JOIN spans AS s USING (tenant, trace_id, span_id)
WHERE e.score < 0.002 AND s.start_time >= now()::TIMESTAMP - INTERVAL 7 DAY ORDER BY e.score LIMIT 50;
-- input tokens in steps, by model
SELECT model, input_tokens // 500 AS step, count(*) FROM spans WHERE span_type = 'llm' GROUP BY ALL ORDER BY ALL;
-- cached share of tokens by day
SELECT start_time::DATE AS day, sum(cached_tokens) / nullif(sum(input_tokens), 0) FROM spans GROUP BY day ORDER BY day;
-- different users a day
SELECT start_time::DATE AS day, count(DISTINCT user_id), count(DISTINCT session_id) FROM traces GROUP BY day ORDER BY day;
-- spans by service, kind and type
SELECT service_name, kind, span_type, count(*), avg(duration_ms) FROM spans GROUP BY ALL ORDER BY 4 DESC;
