-- Return sessions as targets of a trial, each by its latest trace. The clause is that of the span that met most
-- clauses.
SELECT
    arg_max(trace_id, (trace_start, trace_id)) AS trace_id,
    NULL AS span_id,
    arg_min(name, start_time) AS name,
    arg_min(service_name, start_time) AS service_name,
    min(start_time) AS start_time,
    CASE WHEN bool_and(clause IS NOT NULL) THEN max(clause) END AS clause,
    true AS root_ended,
    min(received_at) AS first_arrival,
    max(received_at) AS last_arrival,
    tenant,
    max(seq) AS seq,
    coalesce(
        arg_min(project, start_time) FILTER (WHERE parent_span_id IS NULL), arg_min(project, start_time)
    ) AS project,
    told.session_id
FROM looked_at
INNER JOIN (
    SELECT
        tenant,
        trace_id,
        min(start_time) AS trace_start,
        coalesce(
            arg_min(session_id, start_time) FILTER (WHERE parent_span_id IS NULL), arg_min(session_id, start_time)
        ) AS session_id
    FROM looked_at
    GROUP BY tenant, trace_id
) AS told USING (tenant, trace_id)
WHERE told.session_id IS NOT NULL
GROUP BY tenant, told.session_id;
