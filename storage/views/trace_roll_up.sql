-- Totals of the parts of each changed trace. Other statements reuse its text with other parts.
CREATE OR REPLACE VIEW trace_roll_up AS
SELECT
    tenant,
    trace_id,
    coalesce(arg_min(root_name, root_start_time), arg_min(first_name, start_time)) AS root_name,
    coalesce(arg_min(root_project, root_start_time), arg_min(first_project, start_time)) AS project,
    coalesce(arg_min(root_service_name, root_start_time), arg_min(first_service_name, start_time)) AS service_name,
    min(start_time) AS start_time,
    max(last_start_time) AS last_start_time,
    max(end_time) AS end_time,
    sum(span_count)::BIGINT AS span_count,
    sum(error_count)::BIGINT AS error_count,
    max(expires_at) AS expires_at,
    trace_key,
    min(batch) AS first_batch,
    max(batch) AS last_batch
FROM changed_part
GROUP BY tenant, trace_id, trace_key;
