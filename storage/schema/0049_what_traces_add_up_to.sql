-- What the parts of a trace add up to is kept with what it means, so that questions about traces read one row each.
ALTER TABLE trace_reading ADD COLUMN root_name VARCHAR;
ALTER TABLE trace_reading ADD COLUMN project VARCHAR;
ALTER TABLE trace_reading ADD COLUMN service_name VARCHAR;
ALTER TABLE trace_reading ADD COLUMN last_start_time TIMESTAMP_NS;
ALTER TABLE trace_reading ADD COLUMN end_time TIMESTAMP_NS;
ALTER TABLE trace_reading ADD COLUMN stored_span_count BIGINT; -- `span_count` is of those that the sums are of
ALTER TABLE trace_reading ADD COLUMN error_count BIGINT;
ALTER TABLE trace_reading ADD COLUMN expires_at TIMESTAMP;

CREATE TABLE added_up AS
SELECT
    tenant,
    trace_id,
    trace_key,
    coalesce(arg_min(root_name, root_start_time), arg_min(first_name, start_time)) AS root_name,
    coalesce(arg_min(root_project, root_start_time), arg_min(first_project, start_time)) AS project,
    coalesce(arg_min(root_service_name, root_start_time), arg_min(first_service_name, start_time)) AS service_name,
    min(start_time) AS start_time,
    max(last_start_time) AS last_start_time,
    max(end_time) AS end_time,
    sum(span_count)::BIGINT AS span_count,
    sum(error_count)::BIGINT AS error_count,
    max(expires_at) AS expires_at
FROM trace_part
GROUP BY tenant, trace_id, trace_key;

INSERT INTO trace_reading (tenant, trace_id, trace_key, start_time, tool_call_count) -- to be added up, as of no edition
SELECT a.tenant, a.trace_id, a.trace_key, a.start_time, 0
FROM added_up AS a
ANTI JOIN trace_reading AS r ON r.trace_key = a.trace_key AND r.tenant = a.tenant AND r.trace_id = a.trace_id;

UPDATE trace_reading SET
    root_name = a.root_name,
    project = a.project,
    service_name = a.service_name,
    start_time = a.start_time,
    last_start_time = a.last_start_time,
    end_time = a.end_time,
    stored_span_count = a.span_count,
    error_count = a.error_count,
    expires_at = a.expires_at
FROM added_up AS a
WHERE a.trace_key = trace_reading.trace_key AND a.tenant = trace_reading.tenant AND a.trace_id = trace_reading.trace_id;

DROP TABLE added_up;
