-- Return traces as targets of a trial. The clause is that of the span that met most clauses.
SELECT
    trace_id,
    NULL AS span_id,
    coalesce(
        arg_min(name, start_time) FILTER (WHERE parent_span_id IS NULL), arg_min(name, start_time)
    ) AS name,
    arg_min(service_name, start_time) AS service_name,
    min(start_time) AS start_time,
    CASE WHEN bool_and(clause IS NOT NULL) THEN max(clause) END AS clause,
    bool_or(parent_span_id IS NULL AND end_time IS NOT NULL) AS root_ended,
    min(received_at) AS first_arrival,
    max(received_at) AS last_arrival,
    tenant,
    max(seq) AS seq,
    coalesce(
        arg_min(project, start_time) FILTER (WHERE parent_span_id IS NULL), arg_min(project, start_time)
    ) AS project,
    NULL AS session_id
FROM looked_at
GROUP BY tenant, trace_id;
