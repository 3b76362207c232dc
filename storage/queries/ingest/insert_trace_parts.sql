-- Insert a row for each trace of a batch. A trace expires when the retention of its projects has passed since its
-- latest span was received. The time of receipt of the newest stored row is the lower bound, since the clock may have
-- been behind.
INSERT INTO trace_part BY NAME
SELECT
    tenant,
    trace_id,
    ('0x' || trace_id[17:])::UBIGINT AS trace_key,
    min(start_time) AS start_time,
    max(start_time) AS last_start_time,
    max(CASE WHEN epoch_ns(end_time) <> 0 THEN end_time END) AS end_time,
    count(*) AS span_count,
    count(*) FILTER (WHERE status_code = 2) AS error_count,
    arg_min(name, start_time) AS first_name,
    arg_min(project, start_time) AS first_project,
    arg_min(service_name, start_time) AS first_service_name,
    min(start_time) FILTER (WHERE parent_span_id IS NULL) AS root_start_time,
    arg_min(name, start_time) FILTER (WHERE parent_span_id IS NULL) AS root_name,
    arg_min(project, start_time) FILTER (WHERE parent_span_id IS NULL) AS root_project,
    arg_min(service_name, start_time) FILTER (WHERE parent_span_id IS NULL) AS root_service_name,
    max(greatest(received_at, make_timestamp($newest_us::BIGINT)) + to_days(coalesce(
        ($project_days::INTEGER[])[list_position($projects::VARCHAR[], project)], $retention_days::INTEGER
    ))) AS expires_at,
    $batch::BIGINT AS batch
FROM incoming_spans
GROUP BY tenant, trace_id;
