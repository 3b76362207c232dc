-- Which service what was judged is of, and when it started: releases of two services are never compared, and results are
-- shown over the time of what they judge. NULL: it is not known; then the time of the judgement stands for that of the start.
ALTER TABLE job ADD COLUMN service VARCHAR;
ALTER TABLE job ADD COLUMN started_at TIMESTAMP;
ALTER TABLE evaluation ADD COLUMN service VARCHAR;
ALTER TABLE evaluation ADD COLUMN started_at TIMESTAMP;
ALTER TABLE counted_score ADD COLUMN service VARCHAR;
ALTER TABLE counted_score ADD COLUMN started_at TIMESTAMP;
ALTER TABLE evaluation_day ADD COLUMN service VARCHAR;
ALTER TABLE evaluation_day ADD COLUMN started_day DATE;
ALTER TABLE evaluation_day ADD COLUMN counted BIGINT DEFAULT 0; -- of `scored`, those that monitors counted
ALTER TABLE monitor_state ADD COLUMN service VARCHAR;

-- Of traces that are stored it can still be found out; a span is taken for as old as its trace.
CREATE TABLE trace_of_result AS
SELECT
    tenant,
    trace_id,
    coalesce(arg_min(root_service_name, root_start_time), arg_min(first_service_name, start_time)) AS service,
    min(start_time)::TIMESTAMP AS started_at
FROM trace_part
WHERE trace_id IN (SELECT trace_id FROM evaluation UNION SELECT trace_id FROM job UNION SELECT trace_id FROM counted_score)
GROUP BY tenant, trace_id;

UPDATE evaluation SET service = t.service, started_at = t.started_at
FROM trace_of_result AS t
WHERE t.tenant = evaluation.tenant AND t.trace_id = evaluation.trace_id;

UPDATE job SET service = t.service, started_at = t.started_at
FROM trace_of_result AS t
WHERE t.tenant = job.tenant AND t.trace_id = job.trace_id;

UPDATE counted_score SET service = t.service, started_at = t.started_at
FROM trace_of_result AS t
WHERE t.tenant = counted_score.tenant AND t.trace_id = counted_score.trace_id;

DROP TABLE trace_of_result;
